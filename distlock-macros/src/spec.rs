//! The validated attribute: everything that can be checked has been, so that the expansion cannot fail.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt as _;
use syn::{Expr, ExprArray, Lit, LitStr, Member, Type, UnOp};

use crate::args::{Given, RawArgs};
use crate::diag::{self, Errors};
use crate::duration;
use crate::item::{Function, Shape, contains_ident};
use crate::template::{self, Placeholder, Segment};

/// A validated attribute.
pub(crate) struct LockSpec {
    /// The path of the runtime crate.
    pub(crate) krate: TokenStream,
    /// What is locked.
    pub(crate) keys: Keys,
    /// The name in traces; `None` for the function's path.
    pub(crate) label: Option<TokenStream>,
    /// The manager, unless it is the current one.
    pub(crate) manager: Option<Expr>,
    /// Lock only if this is true.
    pub(crate) when: Option<Expr>,
    /// Lease time.
    pub(crate) ttl: Option<Amount>,
    /// How to wait.
    pub(crate) wait: Wait,
    /// Whether the lease is kept alive.
    pub(crate) renew: bool,
    /// Cap on renewal.
    pub(crate) max_hold: Option<Amount>,
    /// Least time to hold.
    pub(crate) min_hold: Option<Amount>,
    /// A read lock.
    pub(crate) shared: bool,
    /// A counting semaphore.
    pub(crate) max_holders: Option<Expr>,
    /// A nested call enters without acquiring.
    pub(crate) reentrant: bool,
    /// The value of the function when the lock is busy.
    pub(crate) on_busy: Option<Expr>,
    /// How other errors reach the caller.
    pub(crate) route: Route,
    /// What happens when the lease is lost.
    pub(crate) on_lost: OnLost,
    /// Variable for the guard.
    pub(crate) guard: Option<Ident>,
    /// Variable for the fencing token.
    pub(crate) token: Option<Ident>,
}

/// What is locked.
pub(crate) enum Keys {
    /// One key.
    One(Key),
    /// A list.
    Many(Vec<Key>),
    /// An iterator.
    Iter(Expr),
}

/// One key.
pub(crate) enum Key {
    /// A template.
    Template(Vec<Part>),
    /// An expression.
    Expr(Expr),
}

/// A piece of a key.
pub(crate) enum Part {
    /// Literal text.
    Text(LitStr),
    /// A value.
    Value(Box<Value>),
}

/// A value in a key.
pub(crate) struct Value {
    /// What stands between `<` and `>`.
    pub(crate) name: String,
    /// The same as an expression.
    pub(crate) expr: TokenStream,
    /// Its type, for the message when it cannot be displayed.
    pub(crate) ty: Option<Type>,
    /// Whether its type is a type parameter of the function.
    pub(crate) generic: bool,
    /// Where to report that it cannot be displayed, if the type cannot be written.
    pub(crate) place: Span,
    /// Rendered without escaping.
    pub(crate) raw: bool,
}

/// A duration.
pub(crate) enum Amount {
    /// A literal, in milliseconds.
    Millis(u64),
    /// An expression of type `Duration`.
    Expr(Expr),
}

/// How to wait for a busy lock.
pub(crate) enum Wait {
    /// As the manager says.
    Default,
    /// One attempt.
    No,
    /// Without limit.
    Forever,
    /// So long.
    For(Amount),
    /// By attempts.
    Retries {
        /// How many more.
        times: Expr,
        /// The delay between two.
        delay: Option<Amount>,
    },
}

/// How a lock error reaches the caller.
pub(crate) enum Route {
    /// `From<LockError>` for the error of the function's `Result`.
    From,
    /// `map_err`
    MapErr(Expr),
    /// `on_error`
    OnError(Expr),
}

/// What happens when the lease is lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnLost {
    /// The body is dropped.
    Cancel,
    /// The body goes on.
    Continue,
    /// The body goes on; its `Ok` becomes an error.
    Error,
}

/// Makes the path of the runtime crate.
pub(crate) fn krate(args: &RawArgs, errors: &mut Errors) -> TokenStream {
    if let Some(given) = args.get("crate") {
        match unwrapped(&given.value) {
            Expr::Path(path) if path.qself.is_none() && is_absolute(&path.path) => return quote!(#path),
            _ => errors.push(diag::relative_crate(&given.value)),
        }
    }
    quote!(::distlock)
}

fn is_absolute(path: &syn::Path) -> bool {
    path.leading_colon.is_some()
        || path.segments.first().is_some_and(|first| first.ident == "crate" || first.ident == "$crate")
}

/// Validates the options of a function.
///
/// The result is meant to be used only when `errors` stayed empty.
pub(crate) fn validate(args: &RawArgs, function: &Function, errors: &mut Errors) -> LockSpec {
    let krate = krate(args, errors);
    let (keys, template_label) = keys(args, function, errors);
    let renew = boolean(args, "renew", true, errors);
    let ttl = amount(args, "ttl", Zero::Refused, errors);
    let max_hold = amount(args, "max_hold", Zero::Refused, errors);
    let min_hold = amount(args, "min_hold", Zero::Refused, errors);
    check_holds(args, renew, ttl.as_ref(), max_hold.as_ref(), min_hold.as_ref(), errors);
    let on_busy = args.get("on_busy").map(|given| given.value.clone());
    let spec = LockSpec {
        krate,
        keys,
        label: label(args, errors).or(template_label),
        manager: args.get("manager").map(|given| given.value.clone()),
        when: args.get("when").map(|given| given.value.clone()),
        ttl,
        wait: wait(args, errors),
        renew,
        max_hold,
        min_hold,
        shared: word(args, "mode", &["exclusive", "shared"], errors) == Some("shared"),
        max_holders: count(args, "max_holders", errors),
        reentrant: boolean(args, "reentrant", false, errors),
        route: route(args, function, on_busy.is_some(), errors),
        on_busy,
        on_lost: on_lost(args, function, errors),
        guard: variable(args, "guard", errors),
        token: variable(args, "token", errors),
    };
    check_combinations(args, spec.shared, errors);
    spec
}

fn check_combinations(args: &RawArgs, shared: bool, errors: &mut Errors) {
    let mut exclude = |name: &str, other: &str, why: &str, help: &str| {
        if let (Some(given), Some(_)) = (args.get(name), args.get(other)) {
            errors.push(diag::conflict(&given.name, other, why, help));
        }
    };
    exclude("retries", "wait", "the one counts attempts, the other queues", "keep one of the two");
    exclude(
        "max_holders",
        "keys",
        "a counting lock has one key",
        "lock the keys one by one, or leave out one of the two",
    );
    exclude("token", "keys", "a fencing token belongs to one key", "leave out `token`, or lock one `key`");
    exclude("token", "max_holders", "writes of several holders have no order", "leave out one of the two");
    exclude(
        "guard",
        "when",
        "there is no guard when the lock is not taken",
        "use `manager.lock(key)` inside the body",
    );
    exclude(
        "token",
        "when",
        "there is no token when the lock is not taken",
        "use `manager.lock(key)` inside the body",
    );
    exclude(
        "map_err",
        "on_error",
        "the one makes the error, the other the whole value",
        "keep `on_error` for a return type that is no `Result`, `map_err` otherwise",
    );
    if shared {
        exclude("max_holders", "mode", "a shared lock has no limit", "leave out one of the two");
        exclude("token", "mode", "readers have no order", "leave out `token`, or use `mode = \"exclusive\"`");
    }
}

fn check_holds(
    args: &RawArgs,
    renew: bool,
    ttl: Option<&Amount>,
    max_hold: Option<&Amount>,
    min_hold: Option<&Amount>,
    errors: &mut Errors,
) {
    if let Some(given) = args.get("max_hold") {
        if !renew {
            let why = "without renewal the lease ends with `ttl`";
            errors.push(diag::requires(&given.name, why, "leave out `renew = false`, or `max_hold`"));
        } else if let (Some(Amount::Millis(ttl)), Some(Amount::Millis(max))) = (ttl, max_hold)
            && max < ttl
        {
            errors.push(diag::max_hold_below_ttl(&given.value));
        }
    }
    if let Some(given) = args.get("min_hold")
        && !renew
        && let (Some(Amount::Millis(ttl)), Some(Amount::Millis(min))) = (ttl, min_hold)
        && min > ttl
    {
        errors.push(diag::min_hold_above_ttl(&given.value));
    }
}

/// A value without the invisible groups that `macro_rules` fragments come in.
fn unwrapped(value: &Expr) -> &Expr {
    match value {
        Expr::Group(group) => unwrapped(&group.expr),
        value => value,
    }
}

fn string(value: &Expr) -> Option<&LitStr> {
    match unwrapped(value) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(string) => Some(string),
            _ => None,
        },
        _ => None,
    }
}

fn is_literal(value: &Expr) -> bool {
    match unwrapped(value) {
        Expr::Lit(_) => true,
        Expr::Unary(unary) => matches!(unary.op, UnOp::Neg(_)) && is_literal(&unary.expr),
        _ => false,
    }
}

// Keys.

fn keys(args: &RawArgs, function: &Function, errors: &mut Errors) -> (Keys, Option<TokenStream>) {
    let nothing = Keys::Many(Vec::new());
    match (args.get("key"), args.get("keys")) {
        (Some(_), Some(keys)) => {
            let help = "put every key into `keys`";
            errors.push(diag::conflict(&keys.name, "key", "several keys are taken together", help));
            (nothing, None)
        }
        (None, None) if args.mentions("key") || args.mentions("keys") => (nothing, None),
        (None, None) => {
            let first = function.bindings.iter().find(|binding| binding.moves).map(|binding| &binding.ident);
            errors.push(diag::missing_key(Span::call_site(), first));
            (nothing, None)
        }
        (Some(given), None) => match key(given, &given.value, function, errors) {
            Some(key) => (Keys::One(key), string(&given.value).map(ToTokens::to_token_stream)),
            None => (nothing, None),
        },
        (None, Some(given)) => match unwrapped(&given.value) {
            Expr::Array(ExprArray { elems, .. }) => {
                if elems.is_empty() {
                    errors.push(diag::no_keys(&given.value));
                }
                let literals: Vec<_> = elems.iter().filter_map(string).map(LitStr::value).collect();
                let label = (!literals.is_empty() && literals.len() == elems.len())
                    .then(|| LitStr::new(&literals.join(" "), Span::mixed_site()).to_token_stream());
                let keys = elems.iter().filter_map(|elem| key(given, elem, function, errors)).collect();
                (Keys::Many(keys), label)
            }
            value if is_literal(value) => {
                errors.push(diag::wrong_kind(
                    &given.name,
                    &given.value,
                    "a list of keys, or an iterator of keys",
                ));
                (nothing, None)
            }
            value => (Keys::Iter(value.clone()), None),
        },
    }
}

fn key(given: &Given, value: &Expr, function: &Function, errors: &mut Errors) -> Option<Key> {
    if let Some(literal) = string(value) {
        let resolver = FunctionNames(function);
        return template(literal, &resolver, errors).map(Key::Template);
    }
    if is_literal(value) {
        errors.push(diag::key_kind(&given.name, value));
        return None;
    }
    Some(Key::Expr(value.clone()))
}

/// Finds out what the names in a template stand for.
pub(crate) trait Names {
    /// The variable of that name (never `self`).
    fn variable(&self, root: &str) -> Option<Ident>;
    /// What to write for `self`.
    fn receiver(&self) -> Option<Ident>;
    /// The type of the variable, where it can be written again.
    fn ty(&self, root: &str) -> Option<Type>;
    /// Where to report that the variable cannot be displayed; `None` for the template.
    fn origin(&self, root: &str) -> Option<Span>;
    /// Whether a type mentions a type parameter.
    fn is_generic(&self, ty: &Type) -> bool;
    /// Every name, for the message.
    fn all(&self) -> Vec<String>;
}

struct FunctionNames<'a>(&'a Function);

impl FunctionNames<'_> {
    fn binding(&self, root: &str) -> Option<&crate::item::Binding> {
        self.0.bindings.iter().find(|binding| binding.ident.unraw() == root)
    }
}

impl Names for FunctionNames<'_> {
    fn variable(&self, root: &str) -> Option<Ident> {
        self.binding(root).map(|binding| binding.ident.clone())
    }

    fn receiver(&self) -> Option<Ident> {
        self.0.receiver.clone()
    }

    fn ty(&self, root: &str) -> Option<Type> {
        self.binding(root)?.ty.clone()
    }

    fn origin(&self, root: &str) -> Option<Span> {
        self.binding(root).map(|binding| binding.ident.span())
    }

    fn is_generic(&self, ty: &Type) -> bool {
        let mut parameters = self.0.sig.generics.type_params();
        parameters.any(|parameter| contains_ident(ty.to_token_stream(), &|ident| *ident == parameter.ident))
    }

    fn all(&self) -> Vec<String> {
        let receiver = self.0.receiver.as_ref().map(|_| "self.field".to_owned());
        // The names that other macros make up start with two underscores.
        let names = self.0.bindings.iter().map(|binding| binding.ident.unraw().to_string());
        names.filter(|name| !name.starts_with("__")).chain(receiver).collect()
    }
}

/// Reads a template and resolves its names.
pub(crate) fn template(literal: &LitStr, names: &dyn Names, errors: &mut Errors) -> Option<Vec<Part>> {
    let (text, span) = (literal.value(), literal.span());
    let segments = match template::parse(&text) {
        Ok(segments) => segments,
        Err(mistakes) => {
            for mistake in mistakes {
                errors.push(diag::template(span, &text, &mistake));
            }
            return None;
        }
    };
    let mut sound = true;
    let mut complain = |error| {
        sound = false;
        errors.push(error);
    };
    for (range, name) in braced_names(&text, names) {
        complain(diag::braces(span, &text, &range, &name));
    }
    let mut length = 0;
    let mut parts = Vec::new();
    for segment in segments {
        match segment {
            Segment::Text(text) => {
                length += text.len();
                parts.push(Part::Text(LitStr::new(&text, span)));
            }
            Segment::Placeholder(placeholder) => match value(&placeholder, span, names) {
                Some(value) => parts.push(Part::Value(Box::new(value))),
                None if placeholder.root == "self" => {
                    complain(diag::no_receiver(span, &text, &placeholder.range));
                }
                None => {
                    let Placeholder { root, range, .. } = &placeholder;
                    complain(diag::unknown_placeholder(span, &text, range, root, &names.all()));
                }
            },
        }
    }
    if length > 1024 {
        complain(diag::key_too_long(span, length));
    }
    sound.then_some(parts)
}

fn value(placeholder: &Placeholder, literal: Span, names: &dyn Names) -> Option<Value> {
    let Placeholder { root, fields, raw, .. } = placeholder;
    let mut name = root.clone();
    for field in fields {
        name.push('.');
        name.push_str(field);
    }
    let (mut variable, ty) = if root == "self" {
        (names.receiver()?, None)
    } else {
        (names.variable(root)?, if fields.is_empty() { names.ty(root) } else { None })
    };
    // Same name, same hygiene, but errors about it are reported where the reader looks for them.
    let place = if fields.is_empty() { names.origin(root).unwrap_or(literal) } else { literal };
    variable.set_span(variable.span().located_at(place));
    let mut expr = quote!(#variable);
    for field in fields {
        let member = match field.parse::<u32>() {
            Ok(index) => Member::Unnamed(syn::Index { index, span: literal }),
            Err(_) => Member::Named(identifier(field, literal)),
        };
        expr.extend(quote!(.#member));
    }
    let generic = ty.as_ref().is_some_and(|ty| names.is_generic(ty));
    Some(Value { name, expr, ty, generic, place, raw: *raw })
}

/// A field's name, raw where it is a keyword.
fn identifier(name: &str, span: Span) -> Ident {
    match syn::parse_str::<Ident>(name) {
        Ok(_) => Ident::new(name, span),
        Err(_) => Ident::new_raw(name, span),
    }
}

/// `{name}` in the text where `name` is an argument: meant as a placeholder.
fn braced_names(text: &str, names: &dyn Names) -> Vec<(std::ops::Range<usize>, String)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = text[at..].find('{').map(|open| at + open) {
        at = open + 1;
        let Some(close) = text[at..].find(['{', '}']).map(|close| at + close) else { break };
        let content = &text[at..close];
        let root = content.split(['.', ':']).next().unwrap_or_default().trim();
        let names_it = match root {
            "self" => names.receiver().is_some() && content.contains('.'),
            root => names.variable(root).is_some(),
        };
        // `{user:<user_id>}` is a hash tag with a constant in front, whatever the arguments are called.
        if text[close..].starts_with('}') && names_it && !content.contains('<') {
            let path = content.split(':').next().unwrap_or_default().trim();
            found.push((open..close + 1, path.to_owned()));
        }
    }
    found
}

fn label(args: &RawArgs, errors: &mut Errors) -> Option<TokenStream> {
    let given = args.get("name")?;
    match unwrapped(&given.value) {
        value if string(value).is_some_and(|text| !text.value().trim().is_empty()) => Some(quote!(#value)),
        Expr::Path(path) => Some(quote!(#path)),
        value => {
            errors.push(diag::wrong_kind(
                &given.name,
                value,
                "a string literal that is not empty, or a constant",
            ));
            None
        }
    }
}

// Values.

/// Whether zero means something.
#[derive(PartialEq, Eq)]
enum Zero {
    Allowed,
    Refused,
}

fn amount(args: &RawArgs, name: &str, zero: Zero, errors: &mut Errors) -> Option<Amount> {
    let given = args.get(name)?;
    let value = unwrapped(&given.value);
    if let Some(text) = string(value) {
        let text = text.value();
        return match duration::parse(&text) {
            Ok(0) if zero == Zero::Refused => {
                errors.push(diag::zero(&given.name, value));
                None
            }
            Ok(millis) => Some(Amount::Millis(millis)),
            Err(kind) => {
                errors.push(diag::duration(&given.name, value, &text, &kind));
                None
            }
        };
    }
    match value {
        Expr::Lit(literal) => {
            errors.push(match &literal.lit {
                Lit::Int(int) => diag::duration_number(&given.name, value, int.base10_digits(), int.suffix()),
                Lit::Float(float) => {
                    let text = format!("{}{}", float.base10_digits(), float.suffix());
                    let kind = duration::parse(&text).err().unwrap_or(duration::DurationError::NotANumber);
                    diag::duration(&given.name, value, &text, &kind)
                }
                _ => diag::wrong_kind(&given.name, value, "a duration"),
            });
            None
        }
        Expr::Unary(unary) if is_literal(value) => {
            let text = format!("-{}", unary.expr.to_token_stream());
            errors.push(diag::duration(&given.name, value, &text, &duration::DurationError::Negative));
            None
        }
        value => Some(Amount::Expr(value.clone())),
    }
}

fn wait(args: &RawArgs, errors: &mut Errors) -> Wait {
    let delay = amount(args, "retry_delay", Zero::Refused, errors);
    if let (Some(given), None) = (args.get("retry_delay"), args.get("retries")) {
        let help = "add `retries = 3`, or leave it out";
        errors.push(diag::requires(&given.name, "it is the delay between retries", help));
    }
    if let Some(times) = count(args, "retries", errors) {
        return Wait::Retries { times, delay };
    }
    let Some(given) = args.get("wait") else { return Wait::Default };
    if string(&given.value).is_some_and(|text| text.value().trim() == "forever") {
        return Wait::Forever;
    }
    match amount(args, "wait", Zero::Allowed, errors) {
        None => Wait::Default,
        Some(Amount::Millis(0)) => Wait::No,
        Some(amount) => Wait::For(amount),
    }
}

fn count(args: &RawArgs, name: &str, errors: &mut Errors) -> Option<Expr> {
    let given = args.get(name)?;
    let value = unwrapped(&given.value);
    if !is_literal(value) {
        return Some(value.clone());
    }
    let number = match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(int) if matches!(int.suffix(), "" | "u32") => int.base10_parse::<u32>().ok(),
            _ => None,
        },
        _ => None,
    };
    match number {
        Some(0) => errors.push(diag::zero(&given.name, value)),
        Some(_) => return Some(value.clone()),
        None => errors.push(diag::count(&given.name, value)),
    }
    None
}

fn boolean(args: &RawArgs, name: &str, default: bool, errors: &mut Errors) -> bool {
    let Some(given) = args.get(name) else { return default };
    match unwrapped(&given.value) {
        Expr::Lit(literal) if matches!(literal.lit, Lit::Bool(_)) => {
            matches!(&literal.lit, Lit::Bool(value) if value.value)
        }
        value => {
            errors.push(diag::wrong_kind(&given.name, value, "`true` or `false`"));
            default
        }
    }
}

fn word(args: &RawArgs, name: &str, words: &[&'static str], errors: &mut Errors) -> Option<&'static str> {
    let given = args.get(name)?;
    let Some(text) = string(&given.value) else {
        let wanted = words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(" or ");
        errors.push(diag::wrong_kind(&given.name, &given.value, &wanted));
        return None;
    };
    let text = text.value();
    let found = words.iter().copied().find(|word| *word == text);
    if found.is_none() {
        errors.push(diag::unknown_word(&given.name, &given.value, &text, words));
    }
    found
}

fn variable(args: &RawArgs, name: &str, errors: &mut Errors) -> Option<Ident> {
    let given = args.get(name)?;
    let ident = match unwrapped(&given.value) {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident().cloned(),
        _ => None,
    };
    let ident =
        ident.filter(|ident| !["self", "Self", "super", "crate"].iter().any(|keyword| ident == keyword));
    if ident.is_none() {
        errors.push(diag::not_a_name(&given.name, &given.value));
    }
    ident
}

/// The names that the body may use because of `guard` and `token`.
pub(crate) fn variables(args: &RawArgs) -> (Option<Ident>, Option<Ident>) {
    let errors = &mut Errors::default();
    (variable(args, "guard", errors), variable(args, "token", errors))
}

// What happens when.

fn route(args: &RawArgs, function: &Function, on_busy: bool, errors: &mut Errors) -> Route {
    if let Some(given) = args.get("on_error") {
        return Route::OnError(given.value.clone());
    }
    let returns_nothing = function.sound && function.output().is_none();
    if let Some(given) = args.get("map_err") {
        if returns_nothing {
            errors.push(diag::map_err_without_result(&given.name));
        }
        return Route::MapErr(given.value.clone());
    }
    if returns_nothing {
        errors.push(diag::returns_nothing(&function.sig.ident, on_busy));
    }
    Route::From
}

fn on_lost(args: &RawArgs, function: &Function, errors: &mut Errors) -> OnLost {
    let sync = matches!(function.shape, Shape::Sync);
    let default = if sync { OnLost::Error } else { OnLost::Cancel };
    let Some(given) = args.get("on_lost") else { return default };
    match word(args, "on_lost", &["cancel", "continue", "error"], errors) {
        Some("continue") => OnLost::Continue,
        Some("cancel") if sync && function.sound => {
            errors.push(diag::cannot_cancel(&given.value));
            default
        }
        Some("error") if !sync && function.sound => {
            errors.push(diag::cancels_already(&given.value));
            default
        }
        _ => default,
    }
}
