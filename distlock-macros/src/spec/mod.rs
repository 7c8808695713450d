//! The validated attribute. All checks are done, so the expansion cannot fail.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote};
use syn::ext::IdentExt as _;
use syn::{Expr, Lit, LitStr, Member, Type, UnOp};

use crate::args::RawArgs;
use crate::diag::{self, Errors};
use crate::item::Function;
use crate::options::Opt;
use crate::places::{Place, places};
use crate::template::Rendering;

mod combinations;
mod keys;
mod literal;
mod outcome;
mod values;

pub(crate) use keys::{Names, template};
pub(crate) use literal::Foreign;

/// A validated attribute.
pub(crate) struct LockSpec {
    /// The path of the runtime crate.
    pub(crate) krate: TokenStream,
    /// The keys to lock.
    pub(crate) keys: Keys,
    /// The name of the lock in spans, events and metrics; `None` for the function's path.
    pub(crate) label: Option<TokenStream>,
    /// The warnings that the compiler must show.
    pub(crate) warnings: Vec<(Warning, Span)>,
    /// The places that the options use before the body runs.
    pub(crate) used: Vec<Place>,
    /// Everything else.
    pub(crate) options: Options,
}

/// Something that is accepted, with a warning of the compiler at its place.
#[derive(Clone, Copy)]
pub(crate) enum Warning {
    /// An option by the name that it had once.
    FormerName,
    /// A template without placeholders, in which a word is the name of an argument.
    LiteralName,
}

/// The options that have a default.
#[derive(Default)]
pub(crate) struct Options {
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
    /// A body that has lost its lease continues, and its value counts.
    pub(crate) continues: bool,
    /// Whether the reply to the release is awaited; `None`: the manager's setting.
    pub(crate) confirmed: Option<bool>,
    /// A longer wait is reported.
    pub(crate) warn_wait: Option<Amount>,
    /// A longer hold is reported.
    pub(crate) warn_hold: Option<Amount>,
    /// How long the process may keep the lock after the function.
    pub(crate) linger: Option<Amount>,
    /// Variable for the guard.
    pub(crate) guard: Option<Ident>,
    /// Variable for the fencing token.
    pub(crate) token: Option<Ident>,
    /// Variable for the key with its fencing token.
    pub(crate) fence: Option<Ident>,
    /// The transaction of the body.
    pub(crate) transaction: Option<Transaction>,
}

/// `transaction = name in database`, and the options for it.
pub(crate) struct Transaction {
    /// The variable.
    pub(crate) name: Ident,
    /// The pool.
    pub(crate) database: Expr,
    /// How long the result is kept.
    pub(crate) once: Option<Amount>,
    /// The value that a repeated call must have, too.
    pub(crate) once_of: Option<Expr>,
    /// The variable that gets whether the result is an earlier one.
    pub(crate) once_outcome: Option<Expr>,
}

impl LockSpec {
    /// Whether the request consists of arguments and literals.
    pub(crate) fn evaluates_nothing(&self) -> bool {
        let is_template = |key: &Key| matches!(key, Key::Template(_));
        let keys = match &self.keys {
            Keys::One(key) => is_template(key),
            Keys::Many(keys) => keys.iter().all(is_template),
            Keys::Iter(_) => false,
        };
        let Options { ttl, max_hold, min_hold, warn_wait, warn_hold, linger, max_holders, wait, .. } =
            &self.options;
        let is_literal = |amount: &Amount| matches!(amount, Amount::Millis(_));
        let mut amounts = [ttl, max_hold, min_hold, warn_wait, warn_hold, linger].into_iter().flatten();
        let waits = match wait {
            Wait::Default | Wait::No | Wait::Forever => true,
            Wait::For(amount) => is_literal(amount),
            Wait::Retries { .. } => false,
        };
        keys && waits && max_holders.is_none() && amounts.all(is_literal)
    }
}

/// The keys to lock.
pub(crate) enum Keys {
    /// One key.
    One(Key),
    /// A list.
    Many(Vec<Key>),
    /// An iterator.
    Iter(Expr),
}

impl Keys {
    /// Whether the request takes this variable.
    pub(crate) fn moves(&self, name: &Ident) -> bool {
        match self {
            Keys::Iter(Expr::Path(path)) => path.path.is_ident(name),
            Keys::Iter(expr) | Keys::One(Key::Expr(expr)) => is_converted(expr, name),
            Keys::One(Key::Template(_)) | Keys::Many(_) => false,
        }
    }
}

/// `name.into_iter().map(..)`: by convention, methods whose names begin so take `self`.
fn is_converted(expr: &Expr, name: &Ident) -> bool {
    match expr {
        Expr::MethodCall(call) => match &*call.receiver {
            Expr::Path(path) if path.path.is_ident(name) => call.method.to_string().starts_with("into"),
            receiver => is_converted(receiver, name),
        },
        Expr::Try(expr) => is_converted(&expr.expr, name),
        Expr::Await(expr) => is_converted(&expr.base, name),
        _ => false,
    }
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
    /// The text between `<` and `>`.
    pub(crate) name: String,
    /// The same as an expression.
    pub(crate) expr: TokenStream,
    /// Its type, for the message when it cannot be displayed.
    pub(crate) ty: Option<Type>,
    /// Whether its type is a type parameter of the function.
    pub(crate) generic: bool,
    /// The place at which to report that it cannot be displayed, if the type cannot be written.
    pub(crate) place: Span,
    /// Escaped, or unchanged.
    pub(crate) rendering: Rendering,
}

/// A duration.
pub(crate) enum Amount {
    /// A literal, in milliseconds.
    Millis(u64),
    /// An expression of type `Duration`.
    Expr(Expr),
}

/// How to wait for a busy lock.
#[derive(Default)]
pub(crate) enum Wait {
    /// The manager's setting.
    #[default]
    Default,
    /// One attempt.
    No,
    /// Without limit.
    Forever,
    /// For this time.
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
#[derive(Default)]
pub(crate) enum Route {
    /// `From<LockError>` for the error of the function's `Result`.
    #[default]
    From,
    /// `map_err`
    MapErr(Expr),
    /// `on_error`
    OnError(Expr),
}

/// The path of the runtime crate.
pub(crate) fn krate(args: &RawArgs, errors: &mut Errors) -> TokenStream {
    if let Some(given) = args.get(Opt::Crate) {
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

/// Validates the options of a function; `None` if there is nothing to lock.
///
/// The result may only be used if `errors` stayed empty.
pub(crate) fn validate(args: &RawArgs, function: &Function, errors: &mut Errors) -> Option<LockSpec> {
    let krate = krate(args, errors);
    report_stray_names(args, function, errors);
    let keys = keys::keys(args, function, errors);
    let (mut label, mut wait, mut retries, mut delay) = (None, Wait::Default, None, None);
    let mut options = Options { renew: true, ..Options::default() };
    let mut once = None;
    for given in args.iter() {
        // Without `_`, so that this does not compile for a new option in the table until it is handled here.
        match given.option {
            // Together, above.
            Opt::Crate | Opt::Key | Opt::Keys => {}
            // Together, below.
            Opt::MapErr | Opt::OnError => {}
            Opt::Wait => wait = values::wait(given, errors),
            Opt::Retries => retries = values::count(given, errors),
            Opt::RetryDelay => delay = values::amount(given, errors),
            Opt::Label => label = keys::label(given, errors),
            Opt::Manager => options.manager = Some(given.value.clone()),
            Opt::When => options.when = Some(given.value.clone()),
            Opt::OnBusy => options.on_busy = Some(given.value.clone()),
            Opt::Ttl => options.ttl = values::amount(given, errors),
            Opt::MaxHold => options.max_hold = values::amount(given, errors),
            Opt::WarnWait => options.warn_wait = values::amount(given, errors),
            Opt::WarnHold => options.warn_hold = values::amount(given, errors),
            Opt::MinHold => options.min_hold = values::amount(given, errors),
            Opt::MaxHolders => options.max_holders = values::count(given, errors),
            Opt::Renew => options.renew = values::boolean(given, errors).unwrap_or(true),
            Opt::Reentrant => options.reentrant = values::boolean(given, errors).unwrap_or(false),
            Opt::Mode => {
                options.shared = values::word(given, &["exclusive", "shared"], errors) == Some("shared");
            }
            Opt::Release => {
                let word = values::word(given, &["confirmed", "background"], errors);
                options.confirmed = word.map(|word| word == "confirmed");
            }
            Opt::Linger => options.linger = values::linger(given, errors),
            Opt::OnLost => options.continues = outcome::continues(given, function, errors),
            Opt::Guard => options.guard = values::variable(given, errors),
            Opt::Token => options.token = values::variable(given, errors),
            Opt::Fence => options.fence = values::variable(given, errors),
            Opt::Once => once = values::amount(given, errors),
            // Together, below.
            Opt::Transaction | Opt::OnceOf | Opt::OnceOutcome => {}
        }
    }
    options.wait = match retries {
        Some(times) => Wait::Retries { times, delay },
        None => wait,
    };
    options.transaction = args.get(Opt::Transaction).and_then(|given| {
        let value = |option| args.get(option).map(|given| given.value.clone());
        Some(Transaction {
            name: given.variable.clone()?,
            database: given.value.clone(),
            once,
            once_of: value(Opt::OnceOf),
            once_outcome: value(Opt::OnceOutcome),
        })
    });
    options.route = outcome::route(args, function, errors);
    combinations::check(args, function, &options, errors);
    let (keys, template_label) = keys?;
    report_hidden_arguments(args, function, &keys, errors);
    let former = args.former().iter().map(|place| (Warning::FormerName, *place));
    let literal = keys::literal_names(args, function).into_iter().map(|place| (Warning::LiteralName, place));
    let warnings = former.chain(literal).collect();
    let used = used(args, &keys, precedes_body);
    Some(LockSpec { krate, keys, label: label.or(template_label), warnings, used, options })
}

/// `key = "order:{}", user_id` means something if there is such an argument.
fn report_stray_names(args: &RawArgs, function: &Function, errors: &mut Errors) {
    let template = args.get(Opt::Key).and_then(|given| string(&given.value)).map(LitStr::value);
    let braces = template.as_ref().map_or(0, |template| template.matches("{}").count());
    let mut arguments = 0;
    for name in args.stray() {
        if !function.bindings.iter().any(|binding| binding.ident == *name) {
            errors.push(diag::unknown_option(name));
            continue;
        }
        arguments += 1;
        // Names with a `{}` in the template are reported there.
        if arguments > braces {
            errors.push(diag::argument_as_option(name, template.as_deref()));
        }
    }
}

/// `let id = id % 16; Box::pin(async move { .. })`: the key would have the new value.
fn report_hidden_arguments(args: &RawArgs, function: &Function, keys: &Keys, errors: &mut Errors) {
    let used = used(args, keys, |_| true);
    let is_used = |name: &&Ident| used.iter().any(|place| name.unraw() == place.root.as_str());
    let hidden = function.hidden_arguments();
    hidden.iter().filter(is_used).for_each(|name| errors.push(diag::hidden_argument(name)));
    for (name, changed) in function.changed_arguments() {
        if used.iter().any(|place| place.overlaps(&changed)) {
            errors.push(diag::changed_argument(&name));
        }
    }
}

/// Whether an option is evaluated before the body, outside the body's future.
fn precedes_body(option: Opt) -> bool {
    use Opt::{Crate, Label, MapErr, OnError, Once, OnceOf, OnceOutcome, Transaction};
    !matches!(option, Crate | Label | MapErr | OnError | Transaction | Once | OnceOf | OnceOutcome)
}

/// The places that the keys and the wanted options may use.
fn used(args: &RawArgs, keys: &Keys, wanted: fn(Opt) -> bool) -> Vec<Place> {
    let in_key = |key: &Key| match key {
        Key::Template(parts) => {
            let values = parts.iter().filter_map(|part| match part {
                Part::Value(value) => Some(Place::named(&value.name)),
                Part::Text(_) => None,
            });
            values.collect()
        }
        Key::Expr(expr) => places(expr.to_token_stream()),
    };
    let mut used = match keys {
        Keys::One(key) => in_key(key),
        Keys::Many(keys) => keys.iter().flat_map(in_key).collect(),
        Keys::Iter(expr) => places(expr.to_token_stream()),
    };
    let others = args.iter().filter(|given| !matches!(given.option, Opt::Key | Opt::Keys));
    let others = others.filter(|given| wanted(given.option));
    used.extend(others.flat_map(|given| places(given.value.to_token_stream())));
    used
}

/// The names that the body may use because of the options.
pub(crate) struct Variables {
    pub(crate) guard: Option<Ident>,
    pub(crate) token: Option<Ident>,
    pub(crate) fence: Option<Ident>,
    /// With the pool.
    pub(crate) transaction: Option<(Ident, Expr)>,
}

pub(crate) fn variables(args: &RawArgs, function: &Function) -> Variables {
    let errors = &mut Errors::default();
    // One that hides an argument has been reported.
    let mut variable = |option| {
        let name = args.get(option).and_then(|given| values::variable(given, errors));
        name.filter(|name| !function.binds(name))
    };
    Variables {
        guard: variable(Opt::Guard),
        token: variable(Opt::Token),
        fence: variable(Opt::Fence),
        transaction: args
            .get(Opt::Transaction)
            .and_then(|given| Some((given.variable.clone()?, given.value.clone())))
            .filter(|(name, _)| !function.binds(name)),
    }
}

/// A name as an identifier, raw where it is a keyword. syn does not know `gen`, which the edition 2024 reserves.
pub(crate) fn identifier(name: &str, span: Span) -> Ident {
    match syn::parse_str::<Ident>(name) {
        Ok(_) if name != "gen" => Ident::new(name, span),
        _ => Ident::new_raw(name, span),
    }
}

/// A field's name, or its index.
pub(crate) fn member(field: &str, span: Span) -> Member {
    match field.parse::<u32>() {
        Ok(index) => Member::Unnamed(syn::Index { index, span }),
        Err(_) => Member::Named(identifier(field, span)),
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
