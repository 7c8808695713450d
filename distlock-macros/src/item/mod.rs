//! The annotated item: a function of one of three shapes, the variables of its parameters, and the reasons to refuse
//! it.
//!
//! The body of an ordinary function stays a raw token stream: it need not be complete, so half-typed code still
//! expands in an editor, and it costs no parsing. Only a function that returns a future is parsed further.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream, Parser as _};
use syn::visit_mut::VisitMut as _;
use syn::{Attribute, Expr, FnArg, Pat, ReceiverKind, ReturnType, Signature, Stmt, Token, Type, Visibility};

use crate::diag::{self, Errors};
use crate::places::Place;

mod arguments;
mod changes;
mod lazy;
mod patterns;
mod returns;
mod shape;
mod signature;

pub(crate) use arguments::conditions;
pub(crate) use lazy::{Leaf, leaves};
use patterns::LeavesBehind;
pub(crate) use patterns::bound_names;

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
    /// Its braces and their content.
    pub(crate) body: Group,
    /// How its value comes about.
    pub(crate) shape: Shape,
    /// The variables that a key may use, without `self`.
    pub(crate) bindings: Vec<Binding>,
    /// The expression for `self`: the receiver, or the name that `#[async_trait]` gave it.
    pub(crate) receiver: Option<Ident>,
    /// Whether the function may be annotated. If not, its shape is a guess.
    pub(crate) sound: bool,
    /// Parameters that are taken apart inside the function instead of in its signature.
    pub(crate) renamed: Vec<Renamed>,
    /// The arguments of the body without `self`, in the order of declaration.
    pub(crate) arguments: Vec<Argument>,
    /// The arguments that the body binds once more, so that they drop in the same order as without the attribute.
    pub(crate) rebindings: Vec<Rebinding>,
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
    /// The output type of the future.
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

/// A name that a parameter binds, as the body is given it.
pub(crate) struct Argument {
    /// The name.
    pub(crate) ident: Ident,
    /// `#[cfg(..)]`, and for an argument that is never mentioned also its attributes about lints.
    pub(crate) attrs: Vec<Attribute>,
    /// Whether the body or an option may use it.
    pub(crate) mention: Mention,
}

/// Whether the name of an argument occurs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mention {
    /// In the body or in the value of an option, which may use it.
    Somewhere,
    /// In neither, which the compiler reports.
    Nowhere,
}

/// A parameter whose pattern leaves something behind (`_`, `..`, a unit struct) or borrows (`ref`).
pub(crate) struct Renamed {
    /// The parameter's new name.
    pub(crate) ident: Ident,
    /// Its pattern, to be matched inside.
    pub(crate) pat: Pat,
    /// `#[cfg(..)]`
    pub(crate) attrs: Vec<Attribute>,
    /// The place at which it is matched.
    pub(crate) place: MatchedAt,
}

/// The place at which the pattern of a renamed parameter is matched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchedAt {
    /// Before the acquisition, because an option uses its names.
    InFront,
    /// In the body.
    InBody,
    /// Nowhere, because it is `_`.
    Nowhere,
}

/// `let pattern = argument;` in the body.
pub(crate) struct Rebinding {
    /// The name that the body is given.
    pub(crate) ident: Ident,
    /// The pattern that it is bound to, if the pattern is not only the name.
    pub(crate) pat: Option<Pat>,
    /// `mut`, which the signature then does without.
    pub(crate) mutability: Option<Token![mut]>,
    /// `#[cfg(..)]`, and for an argument that is never mentioned also its attributes about lints.
    pub(crate) attrs: Vec<Attribute>,
}

/// A function without its body, which rustc has not checked and may be anything.
struct Head {
    attrs: Vec<Attribute>,
    vis: Visibility,
    defaultness: Option<Ident>,
    sig: Signature,
}

impl Parse for Head {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let defaultness = if input.fork().call(Ident::parse_any).is_ok_and(|ident| ident == "default") {
            Some(input.call(Ident::parse_any)?)
        } else {
            None
        };
        Ok(Head { attrs, vis, defaultness, sig: input.parse()? })
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

/// Takes `#![..]` off a body.
fn inner_attributes(body: Group) -> (Vec<Attribute>, Group) {
    let begins =
        matches!(body.stream().into_iter().next(), Some(TokenTree::Punct(punct)) if punct.as_char() == '#');
    if !begins {
        return (Vec::new(), body);
    }
    let parse = |input: ParseStream<'_>| Ok((Attribute::parse_inner(input)?, input.parse::<TokenStream>()?));
    let Ok((attrs, rest)) = parse.parse2(body.stream()) else { return (Vec::new(), body) };
    let mut stripped = Group::new(Delimiter::Brace, rest);
    stripped.set_span(body.span());
    (attrs, stripped)
}

impl Function {
    /// Reads a function; `None` when it is something else, or has no body.
    ///
    /// The reasons not to annotate it go to `errors`.
    pub(crate) fn parse(item: &TokenStream, errors: &mut Errors) -> Option<Self> {
        // The body is taken off first, because syn would copy every token of it into its buffer.
        let mut head: Vec<TokenTree> = item.clone().into_iter().collect();
        let body = head.pop().and_then(braced);
        let head = match syn::parse2::<Head>(head.into_iter().collect()) {
            Ok(head) => head,
            Err(error) => {
                errors.push(signature::not_a_function(item).unwrap_or(error));
                return None;
            }
        };
        let Some(body) = body else {
            errors.push(diag::no_body(&head.sig.ident));
            return None;
        };
        let (inner_attrs, body) = inner_attributes(body);

        let mut own = Errors::default();
        signature::check_signature(&head.sig, &head.attrs, &body, &mut own);
        let shape = shape::shape(&head.sig, &body, &mut own);
        let own = own.into_error();
        let mut function = Function {
            bindings: patterns::bindings(&head.sig),
            receiver: patterns::receiver(&head.sig),
            attrs: head.attrs,
            inner_attrs,
            vis: head.vis,
            defaultness: head.defaultness,
            sig: head.sig,
            body,
            shape,
            sound: own.is_none(),
            renamed: Vec::new(),
            arguments: Vec::new(),
            rebindings: Vec::new(),
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

    /// The output type of the function or its future; `None` for the unit type.
    pub(crate) fn output(&self) -> Option<&Type> {
        let ty = match (&self.shape, &self.sig.output) {
            (Shape::Future(future), _) => &future.output,
            (_, ReturnType::Type(_, ty)) => &**ty,
            (_, ReturnType::Default) => return None,
        };
        (!is_unit(ty)).then_some(ty)
    }

    /// The function again, with `block` (braces included) instead of its body, or of its `async` block's.
    pub(crate) fn with_body(&self, block: &TokenStream) -> TokenStream {
        let Function { attrs, inner_attrs, vis, defaultness, .. } = self;
        let sig = self.locked_signature();
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
                if let Some(found) = shape::tail(&mut statements).and_then(shape::async_block) {
                    found.block.stmts = vec![Stmt::Expr(Expr::Verbatim(block.clone()), None)];
                }
                quote!(#(#outer)* #vis #defaultness #sig { #(#inner_attrs)* #(#statements)* })
            }
        }
    }

    /// The function again, with these statements as its own body, for every shape.
    pub(crate) fn with_own_body(&self, statements: &TokenStream) -> TokenStream {
        let Function { attrs, inner_attrs, vis, defaultness, sig, .. } = self;
        quote!(#(#attrs)* #vis #defaultness #sig { #(#inner_attrs)* #statements })
    }

    /// `#[async_trait]` moves every argument to a new name of the same spelling, and `self` to `__self`.
    fn use_rebound_names(&mut self) {
        let Shape::Future(future) = &mut self.shape else { return };
        for statement in &future.prelude {
            let Stmt::Local(local) = statement else { continue };
            let Some(source) = local.init.as_ref().and_then(|init| shape::plain_source(&init.expr)) else {
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

    /// The variables that hide an argument of the same name from the options, which are evaluated in the `async` block.
    pub(crate) fn hidden_arguments(&self) -> Vec<Ident> {
        let Shape::Future(future) = &self.shape else { return Vec::new() };
        let bound = shape::bound(&shape::in_front(&future.statements));
        bound.into_iter().filter(|name| self.is_argument(name)).collect()
    }

    /// The arguments that are changed before the `async` block, in which the options are evaluated, and their parts.
    pub(crate) fn changed_arguments(&self) -> Vec<(Ident, Place)> {
        let Shape::Future(future) = &self.shape else { return Vec::new() };
        let mut mutable = Vec::new();
        for input in &self.sig.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    let is_reference = match &receiver.kind {
                        ReceiverKind::Reference(_, _, mutability) => mutability.is_some(),
                        ReceiverKind::Typed(_, ty) => is_mutable(ty),
                        _ => false,
                    };
                    if is_reference || receiver.mutability.is_some() {
                        mutable.extend(self.receiver.clone());
                    }
                }
                FnArg::Typed(typed) => {
                    let mut names = Vec::new();
                    bound_names(&typed.pat, &mut names);
                    names.retain(|name| {
                        is_mutable(&typed.ty) || arguments::mutability(&typed.pat, name).is_some()
                    });
                    mutable.extend(names);
                }
            }
        }
        let changed = changes::changed(shape::in_front(&future.statements), &mutable);
        changed.into_iter().filter(|(name, _)| self.is_argument(name)).collect()
    }

    fn is_argument(&self, name: &Ident) -> bool {
        self.receiver.as_ref() == Some(name)
            || self.bindings.iter().any(|binding| binding.moves && binding.ident == *name)
    }

    /// Whether there is an argument or a constant of that name.
    pub(crate) fn binds(&self, name: &Ident) -> bool {
        self.bindings.iter().any(|binding| binding.ident.unraw() == name.unraw())
    }

    /// Takes patterns that do not move the whole argument out of the signature, as far as the attributes below allow.
    fn rename_parameters(&mut self) {
        let reading = self.attrs.iter().map(names_read).max().unwrap_or(NamesRead::None);
        for (index, input) in self.sig.inputs.iter_mut().enumerate() {
            let FnArg::Typed(typed) = input else { continue };
            let mut leaves = LeavesBehind(false);
            leaves.visit_pat_mut(&mut typed.pat);
            let is_allowed = match reading {
                NamesRead::None => true,
                NamesRead::Written => matches!(&*typed.pat, Pat::Wild(_)),
                NamesRead::All => false,
            };
            if leaves.0 && is_allowed {
                let ident = Ident::new(&format!("__distlock_arg{index}"), Span::mixed_site());
                let pat = Pat::Verbatim(quote!(#ident));
                let pat = std::mem::replace(&mut *typed.pat, pat);
                let attrs = arguments::conditions(&typed.attrs);
                self.renamed.push(Renamed { ident, pat, attrs, place: MatchedAt::InFront });
            }
        }
    }
}

/// The names in the signature that an attribute below reads.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum NamesRead {
    None,
    /// Those that it mentions. `_` is none.
    Written,
    /// `#[instrument]` records every name as a field, so a new name would be recorded, too.
    All,
}

fn names_read(attr: &Attribute) -> NamesRead {
    let last = attr.path().segments.last().map(|segment| segment.ident.to_string());
    match last.as_deref() {
        Some("distributed_lock") => NamesRead::Written,
        Some("instrument") if contains_ident(attr.meta.to_token_stream(), &|ident| ident == "skip_all") => {
            NamesRead::Written
        }
        Some("instrument") => NamesRead::All,
        _ => NamesRead::None,
    }
}

/// Whether any identifier in the tokens, at any depth, is wanted.
pub(crate) fn contains_ident(tokens: TokenStream, wanted: &dyn Fn(&Ident) -> bool) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => wanted(&ident),
        TokenTree::Group(group) => contains_ident(group.stream(), wanted),
        _ => false,
    })
}

/// A type without the parentheses around it, and without the invisible group that a `macro_rules` macro makes.
fn bare(mut ty: &Type) -> &Type {
    loop {
        ty = match ty {
            Type::Paren(paren) => &paren.elem,
            Type::Group(group) => &group.elem,
            _ => return ty,
        };
    }
}

/// Whether a type is `&mut`.
fn is_mutable(ty: &Type) -> bool {
    matches!(bare(ty), Type::Reference(reference) if reference.mutability.is_some())
}

/// Whether a type is `()`.
fn is_unit(ty: &Type) -> bool {
    matches!(bare(ty), Type::Tuple(tuple) if tuple.elems.is_empty())
}
