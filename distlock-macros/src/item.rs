//! The annotated item: a function of one of three shapes, what its parameters bind, and what can be said
//! against it.
//!
//! The body of an ordinary function stays a raw token stream: it need not be complete, so half-typed code still
//! expands in an editor, and it costs no parsing. Only a function that returns a future is parsed further.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream, Parser as _};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Block, Expr, ExprAsync, FnArg, GenericArgument, GenericParam, Pat, PathArguments, ReturnType,
    Signature, Stmt, Token, Type, TypeParamBound, Visibility,
};

use crate::diag::{self, Errors};

/// An annotated function.
pub(crate) struct Function {
    /// Outer and inner attributes, all written in front.
    pub(crate) attrs: Vec<Attribute>,
    /// `#![..]` inside the body.
    pub(crate) inner_attrs: Vec<Attribute>,
    /// Its visibility.
    pub(crate) vis: Visibility,
    /// `default`, in a specialising impl.
    pub(crate) defaultness: Option<Ident>,
    /// Its signature, which is never changed but for parameter patterns.
    pub(crate) sig: Signature,
    /// Its braces and what is between them.
    pub(crate) body: Group,
    /// How its value comes about.
    pub(crate) shape: Shape,
    /// What can stand in a key, `self` excepted.
    pub(crate) bindings: Vec<Binding>,
    /// What to write for `self`: the receiver, or the name that `#[async_trait]` gave it.
    pub(crate) receiver: Option<Ident>,
    /// Whether nothing speaks against annotating it; if not, its shape is a guess.
    pub(crate) sound: bool,
    /// Parameters that are taken apart inside the function instead of in its signature.
    pub(crate) renamed: Vec<Renamed>,
}

/// How a function's value comes about.
pub(crate) enum Shape {
    /// `fn`, on the calling thread.
    Sync,
    /// `async fn`.
    Async,
    /// `fn` that returns a future, written as an `async` block at its end.
    Future(Box<FutureShape>),
}

/// A function that ends in an `async` block.
pub(crate) struct FutureShape {
    /// What the future yields.
    pub(crate) output: Type,
    /// The function's statements; the `async` block at the end is replaced by the expansion.
    statements: Vec<Stmt>,
    /// Rebindings of arguments at the start of the `async` block (`#[async_trait]` writes them).
    pub(crate) prelude: Vec<Stmt>,
    /// The rest of the `async` block.
    pub(crate) rest: Vec<Stmt>,
    /// Names that the prelude binds: they have to drop before the release.
    pub(crate) rebound: Vec<Ident>,
}

/// A name that a key can use.
#[derive(Clone)]
pub(crate) struct Binding {
    /// The name as it was bound, with its hygiene.
    pub(crate) ident: Ident,
    /// Its type, where the parameter is nothing but the name and the type can be written again.
    pub(crate) ty: Option<Type>,
    /// A parameter (moved into the body) rather than a constant.
    pub(crate) moves: bool,
}

/// A parameter whose pattern leaves something behind (`_`, `..`) or borrows (`ref`).
pub(crate) struct Renamed {
    /// The parameter's new name.
    pub(crate) ident: Ident,
    /// Its pattern, to be matched inside.
    pub(crate) pat: Pat,
}

/// A function as far as rustc has checked it: the body may be anything.
struct RawFunction {
    attrs: Vec<Attribute>,
    vis: Visibility,
    defaultness: Option<Ident>,
    sig: Signature,
    body: Option<Group>,
}

impl Parse for RawFunction {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let defaultness = if input.fork().call(Ident::parse_any).is_ok_and(|ident| ident == "default") {
            Some(input.call(Ident::parse_any)?)
        } else {
            None
        };
        let sig = input.parse()?;
        let body = if input.peek(Token![;]) {
            input.parse::<Token![;]>()?;
            None
        } else {
            let token = input.parse::<TokenTree>()?;
            let span = token.span();
            Some(braced(token).ok_or_else(|| syn::Error::new(span, "expected a function body"))?)
        };
        Ok(RawFunction { attrs, vis, defaultness, sig, body })
    }
}

/// The brace group, also when a `macro_rules` macro passed it on as `$body`.
fn braced(token: TokenTree) -> Option<Group> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            let mut tokens = group.stream().into_iter();
            let inner = tokens.next()?;
            if tokens.next().is_none() { braced(inner) } else { None }
        }
        _ => None,
    }
}

impl Function {
    /// Reads a function; `None` when it is something else, or has no body.
    ///
    /// What speaks against annotating it goes to `errors`.
    pub(crate) fn parse(item: &TokenStream, errors: &mut Errors) -> Option<Self> {
        let raw = match syn::parse2::<RawFunction>(item.clone()) {
            Ok(raw) => raw,
            Err(error) => {
                errors.push(not_a_function(item).unwrap_or(error));
                return None;
            }
        };
        let Some(body) = raw.body else {
            errors.push(diag::no_body(&raw.sig.ident));
            return None;
        };
        let parse_inner = |input: ParseStream<'_>| Ok((Attribute::parse_inner(input)?, input.parse()?));
        let (inner_attrs, tokens): (_, TokenStream) = match parse_inner.parse2(body.stream()) {
            Ok(parsed) => parsed,
            Err(_) => (Vec::new(), body.stream()),
        };
        let mut stripped = Group::new(Delimiter::Brace, tokens);
        stripped.set_span(body.span());

        let mut own = Errors::default();
        check_signature(&raw.sig, &raw.attrs, &stripped, &mut own);
        let shape = shape(&raw.sig, &stripped, &mut own);
        let own = own.into_error();
        let mut function = Function {
            bindings: bindings(&raw.sig),
            receiver: receiver(&raw.sig),
            attrs: raw.attrs,
            inner_attrs,
            vis: raw.vis,
            defaultness: raw.defaultness,
            sig: raw.sig,
            body: stripped,
            shape,
            sound: own.is_none(),
            renamed: Vec::new(),
        };
        if let Some(error) = own {
            errors.push(error);
        }
        function.use_rebound_names();
        if !matches!(function.shape, Shape::Future(_)) {
            function.rename_parameters();
        }
        Some(function)
    }

    /// What the function or its future yields; `None` for nothing.
    pub(crate) fn output(&self) -> Option<&Type> {
        let ty = match (&self.shape, &self.sig.output) {
            (Shape::Future(future), _) => &future.output,
            (_, ReturnType::Type(_, ty)) => &**ty,
            (_, ReturnType::Default) => return None,
        };
        (!is_unit(ty)).then_some(ty)
    }

    /// The function again, with `block` (braces included) in place of its body, or of its `async` block's.
    pub(crate) fn with_body(&self, block: &TokenStream) -> TokenStream {
        let Function { attrs, inner_attrs, vis, defaultness, sig, .. } = self;
        let outer = attrs.iter();
        match &self.shape {
            Shape::Sync | Shape::Async => {
                let mut tokens = quote!(#(#outer)* #vis #defaultness #sig);
                let mut inside = quote!(#(#inner_attrs)*);
                inside.extend(block.clone());
                let mut group = Group::new(Delimiter::Brace, inside);
                group.set_span(self.body.span());
                tokens.extend([TokenTree::Group(group)]);
                tokens
            }
            Shape::Future(future) => {
                let mut statements = future.statements.clone();
                if let Some(found) = tail(&mut statements).and_then(async_block) {
                    found.block.stmts = vec![Stmt::Expr(Expr::Verbatim(block.clone()), None)];
                }
                quote!(#(#outer)* #vis #defaultness #sig { #(#inner_attrs)* #(#statements)* })
            }
        }
    }

    /// The function again, with these statements as its own body, whatever its shape.
    pub(crate) fn with_own_body(&self, statements: &TokenStream) -> TokenStream {
        let Function { attrs, inner_attrs, vis, defaultness, sig, .. } = self;
        quote!(#(#attrs)* #vis #defaultness #sig { #(#inner_attrs)* #statements })
    }

    /// `#[async_trait]` moves every argument to a new name of the same spelling, and `self` to `__self`.
    fn use_rebound_names(&mut self) {
        let Shape::Future(future) = &mut self.shape else { return };
        for statement in &future.prelude {
            let Stmt::Local(local) = statement else { continue };
            let Some(source) = local.init.as_ref().and_then(|init| plain_source(&init.expr)) else {
                continue;
            };
            let mut names = Vec::new();
            bound_names(&local.pat, &mut names);
            future.rebound.extend(names.iter().cloned());
            if source == "self" {
                if let [name] = names.as_slice() {
                    self.receiver = Some(name.clone());
                }
                continue;
            }
            for name in names {
                match self.bindings.iter_mut().find(|binding| binding.ident.unraw() == name.unraw()) {
                    Some(binding) => binding.ident = name,
                    None => self.bindings.push(Binding { ident: name, ty: None, moves: true }),
                }
            }
        }
    }

    /// Takes patterns that do not move the whole argument out of the signature.
    ///
    /// Not when another attribute below still wants to see the names in the signature.
    fn rename_parameters(&mut self) {
        let reads_names = |attr: &Attribute| {
            let last = attr.path().segments.last().map(|segment| segment.ident.to_string());
            matches!(last.as_deref(), Some("distributed_lock" | "instrument"))
        };
        if self.attrs.iter().any(reads_names) {
            return;
        }
        for (index, input) in self.sig.inputs.iter_mut().enumerate() {
            let FnArg::Typed(typed) = input else { continue };
            let mut leaves = LeavesBehind(false);
            leaves.visit_pat_mut(&mut typed.pat);
            if leaves.0 {
                let ident = Ident::new(&format!("arg{index}"), Span::mixed_site());
                let pat = Pat::Verbatim(quote!(#ident));
                let pat = std::mem::replace(&mut *typed.pat, pat);
                self.renamed.push(Renamed { ident, pat });
            }
        }
    }
}

/// Finds patterns that leave a part of the argument where it is.
struct LeavesBehind(bool);

impl VisitMut for LeavesBehind {
    fn visit_pat_mut(&mut self, pat: &mut Pat) {
        match pat {
            Pat::Wild(_) | Pat::Rest(_) => self.0 = true,
            Pat::Ident(ident) if ident.by_ref.is_some() => self.0 = true,
            Pat::Struct(pat) if pat.rest.is_some() => self.0 = true,
            _ => visit_mut::visit_pat_mut(self, pat),
        }
    }
}

/// Collects the names that a pattern binds, each once.
struct BoundNames<'a>(&'a mut Vec<Ident>);

impl VisitMut for BoundNames<'_> {
    fn visit_pat_mut(&mut self, pat: &mut Pat) {
        // An upper-case name without `@` or `mut` is a constant or a unit struct.
        if let Pat::Ident(pat) = pat {
            let constant = pat.by_ref.is_none()
                && pat.mutability.is_none()
                && pat.subpat.is_none()
                && pat.ident.unraw().to_string().starts_with(char::is_uppercase);
            if !constant && !self.0.contains(&pat.ident) {
                self.0.push(pat.ident.clone());
            }
        }
        visit_mut::visit_pat_mut(self, pat);
    }
}

/// The names that a pattern binds.
pub(crate) fn bound_names(pat: &Pat, names: &mut Vec<Ident>) {
    BoundNames(names).visit_pat_mut(&mut pat.clone());
}

fn bindings(sig: &Signature) -> Vec<Binding> {
    let mut bindings = Vec::new();
    for input in &sig.inputs {
        let FnArg::Typed(typed) = input else { continue };
        let plain = matches!(&*typed.pat, Pat::Ident(pat) if pat.subpat.is_none());
        let ty = (plain && !mentions_impl_or_macro(&typed.ty)).then(|| (*typed.ty).clone());
        let mut names = Vec::new();
        bound_names(&typed.pat, &mut names);
        bindings.extend(names.into_iter().map(|ident| Binding { ident, ty: ty.clone(), moves: true }));
    }
    for param in &sig.generics.params {
        if let GenericParam::Const(param) = param {
            bindings.push(Binding { ident: param.ident.clone(), ty: None, moves: false });
        }
    }
    bindings
}

fn receiver(sig: &Signature) -> Option<Ident> {
    match sig.inputs.first() {
        Some(FnArg::Receiver(receiver)) => Some(Ident::new("self", receiver.self_token.span)),
        _ => None,
    }
}

/// Whether a type cannot be written a second time: `impl Trait`, or a macro that may make one.
fn mentions_impl_or_macro(ty: &Type) -> bool {
    contains_ident(ty.to_token_stream(), &|ident| ident == "impl")
        || matches!(ty, Type::Macro(_) | Type::Verbatim(_))
}

/// Whether any identifier in the tokens, at any depth, is wanted.
pub(crate) fn contains_ident(tokens: TokenStream, wanted: &dyn Fn(&Ident) -> bool) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => wanted(&ident),
        TokenTree::Group(group) => contains_ident(group.stream(), wanted),
        _ => false,
    })
}

/// Whether a type is `()`.
fn is_unit(ty: &Type) -> bool {
    match ty {
        Type::Tuple(tuple) => tuple.elems.is_empty(),
        Type::Paren(paren) => is_unit(&paren.elem),
        Type::Group(group) => is_unit(&group.elem),
        _ => false,
    }
}

/// The message for an item that is no function.
fn not_a_function(item: &TokenStream) -> Option<syn::Error> {
    let mut tokens = item.clone().into_iter();
    while let Some(token) = tokens.next() {
        match token {
            // Outer attributes and `pub(..)`.
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                tokens.next();
            }
            TokenTree::Group(group) if group.delimiter() != Delimiter::None => {}
            TokenTree::Ident(ident) => match ident.to_string().as_str() {
                "pub" | "unsafe" | "default" | "auto" => {}
                "struct" | "enum" | "union" | "type" | "mod" | "trait" | "impl" | "static" | "use"
                | "const" | "macro_rules" | "let" => return Some(diag::not_a_function(&ident)),
                _ => return None,
            },
            _ => return None,
        }
    }
    None
}

/// What speaks against a signature as such.
fn check_signature(sig: &Signature, attrs: &[Attribute], body: &Group, errors: &mut Errors) {
    if let Some(constness) = &sig.constness {
        errors.push(diag::const_fn(constness.span));
    }
    if let Some(variadic) = &sig.variadic {
        errors.push(diag::variadic(variadic.dots.spans[0]));
    } else if let Some(abi) = &sig.abi
        && abi.name.as_ref().is_none_or(|name| name.value() != "Rust")
    {
        errors.push(diag::foreign_abi(abi.extern_token.span));
    }
    if let ReturnType::Type(_, ty) = &sig.output
        && matches!(&**ty, Type::Never(_))
    {
        errors.push(diag::never_returns(ty));
    }
    if sig.asyncness.is_none()
        && let Some(name) = runtime_attribute(attrs, body)
    {
        errors.push(diag::below_runtime_attribute(&sig.ident, name));
    }
}

/// `#[tokio::test]` and `#[tokio::main]` turn the function into a synchronous one that blocks on its body.
fn runtime_attribute(attrs: &[Attribute], body: &Group) -> Option<&'static str> {
    let mut tokens = body.stream().into_iter();
    let starts = ["let", "body", "=", "async"].iter().all(|wanted| {
        tokens.next().is_some_and(|token| match &token {
            TokenTree::Ident(ident) => ident == wanted,
            TokenTree::Punct(punct) => *wanted == "=" && punct.as_char() == '=',
            _ => false,
        })
    });
    if !starts || !contains_ident(body.stream(), &|ident| ident == "block_on") {
        return None;
    }
    let test = attrs.iter().any(|attr| attr.path().segments.last().is_some_and(|last| last.ident == "test"));
    Some(if test { "#[tokio::test]" } else { "#[tokio::main]" })
}

/// Finds out how a function's value comes about.
fn shape(sig: &Signature, body: &Group, errors: &mut Errors) -> Shape {
    if sig.asyncness.is_some() {
        return Shape::Async;
    }
    let ReturnType::Type(_, ty) = &sig.output else { return Shape::Sync };
    match returned(ty) {
        Returned::Value => Shape::Sync,
        Returned::Stream => {
            errors.push(diag::returns_stream(ty));
            Shape::Sync
        }
        Returned::Unnameable => {
            errors.push(diag::unnameable_future(ty));
            Shape::Sync
        }
        Returned::Future(output) => match future_shape(*output, body) {
            Some(shape) => Shape::Future(Box::new(shape)),
            None => {
                errors.push(diag::unrecognised_future(ty));
                Shape::Sync
            }
        },
    }
}

/// What a return type says about laziness.
enum Returned {
    Value,
    Future(Box<Type>),
    Stream,
    Unnameable,
}

fn returned(ty: &Type) -> Returned {
    match ty {
        Type::Group(group) => returned(&group.elem),
        Type::Paren(paren) => returned(&paren.elem),
        Type::ImplTrait(ty) => returned_by_bounds(ty.bounds.iter()),
        Type::TraitObject(ty) => returned_by_bounds(ty.bounds.iter()),
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Returned::Value };
            let types = || match &last.arguments {
                PathArguments::AngleBracketed(arguments) => {
                    let mut types = arguments.args.iter().filter_map(|argument| match argument {
                        GenericArgument::Type(ty) => Some(ty),
                        _ => None,
                    });
                    types.next().cloned()
                }
                _ => None,
            };
            match (last.ident.to_string().as_str(), types()) {
                ("Pin" | "Box", Some(inner)) => returned(&inner),
                ("BoxFuture" | "LocalBoxFuture", Some(output)) => Returned::Future(Box::new(output)),
                ("BoxStream" | "LocalBoxStream", Some(_)) => Returned::Stream,
                ("Future", None) if path.qself.is_some() || path.path.segments.len() > 1 => {
                    Returned::Unnameable
                }
                _ => Returned::Value,
            }
        }
        _ => Returned::Value,
    }
}

fn returned_by_bounds<'a>(bounds: impl Iterator<Item = &'a TypeParamBound>) -> Returned {
    for bound in bounds {
        let TypeParamBound::Trait(bound) = bound else { continue };
        let Some(last) = bound.path.segments.last() else { continue };
        match last.ident.to_string().as_str() {
            "Stream" | "TryStream" => return Returned::Stream,
            "Future" => {
                if let PathArguments::AngleBracketed(arguments) = &last.arguments {
                    for argument in &arguments.args {
                        if let GenericArgument::AssocType(assoc) = argument
                            && assoc.ident == "Output"
                        {
                            return Returned::Future(Box::new(assoc.ty.clone()));
                        }
                    }
                }
                return Returned::Unnameable;
            }
            _ => {}
        }
    }
    Returned::Value
}

fn future_shape(output: Type, body: &Group) -> Option<FutureShape> {
    let mut statements = Block::parse_within.parse2(body.stream()).ok()?;
    let found = async_block(tail(&mut statements)?)?;
    let mut rest = std::mem::take(&mut found.block.stmts);
    let prelude_length = rest.iter().take_while(|statement| is_prelude(statement)).count();
    let prelude = rest.drain(..prelude_length).collect();
    Some(FutureShape { output, statements, prelude, rest, rebound: Vec::new() })
}

/// The expression a block ends with.
fn tail(statements: &mut [Stmt]) -> Option<&mut Expr> {
    match statements.last_mut()? {
        Stmt::Expr(Expr::Return(returned), _) => returned.expr.as_deref_mut(),
        Stmt::Expr(tail, None) => Some(tail),
        _ => None,
    }
}

/// The `async` block in `async {}`, `Box::pin(async {})`, `Pin::from(Box::new(async {}))`, `async {}.boxed()`.
fn async_block(expr: &mut Expr) -> Option<&mut ExprAsync> {
    match expr {
        Expr::Async(found) => Some(found),
        Expr::Paren(paren) => async_block(&mut paren.expr),
        Expr::Group(group) => async_block(&mut group.expr),
        Expr::Block(block) if block.label.is_none() => async_block(tail(&mut block.block.stmts)?),
        Expr::Call(call) => {
            let Expr::Path(function) = &*call.func else { return None };
            let name = function.path.segments.last()?.ident.to_string();
            let wraps = matches!(name.as_str(), "pin" | "new" | "from" | "instrument" | "in_current_span");
            if wraps { async_block(call.args.first_mut()?) } else { None }
        }
        Expr::MethodCall(call) => {
            let name = call.method.to_string();
            let wraps = matches!(name.as_str(), "boxed" | "boxed_local" | "instrument" | "in_current_span");
            if wraps { async_block(&mut call.receiver) } else { None }
        }
        _ => None,
    }
}

/// The variable in `x` and in `{ let x = x; x }`.
fn plain_source(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        Expr::Block(block) => match block.block.stmts.as_slice() {
            [Stmt::Local(local), Stmt::Expr(tail, None)] => {
                let source = plain_source(&local.init.as_ref()?.expr)?;
                (plain_source(tail)? == source).then_some(source)
            }
            _ => None,
        },
        _ => None,
    }
}

/// `let pattern = argument;`, and the dead `return` that `#[async_trait]` starts with.
fn is_prelude(statement: &Stmt) -> bool {
    match statement {
        Stmt::Local(local) => local
            .init
            .as_ref()
            .is_some_and(|init| init.diverge.is_none() && plain_source(&init.expr).is_some()),
        Stmt::Expr(Expr::If(expr), _) => {
            matches!(&*expr.cond, Expr::Let(condition)
                if condition.pat.to_token_stream().to_string().contains("__ret"))
        }
        _ => false,
    }
}
