//! From the options to the lock: manager, key, request, and what to do when it is busy.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{Expr, LitStr};

use super::Expansion;
use super::tokens::{located_at, method, reference};
use crate::item::MatchedAt;
use crate::spec::{Amount, Key, Keys, Options, Part, Wait, Warning};
use crate::template::Rendering;

/// How the lock is acquired.
#[derive(Clone, Copy)]
pub(super) enum Acquiring {
    Async,
    Blocking,
}

impl Expansion<'_> {
    /// An `Asked`.
    pub(super) fn asked(&self) -> TokenStream {
        let (private, request) = (&self.private, self.request());
        match &self.spec.options.when {
            None => request,
            Some(when) => quote_spanned! {Span::mixed_site()=>
                {
                    let __distlock_when: ::core::primitive::bool = #when;
                    if __distlock_when { #request } else { #private::ask_for_nothing() }
                }
            },
        }
    }

    /// The patterns that are matched before the acquisition, after `prelude`. The values that they do not bind are
    /// dropped after the body, in the scope of the section like the body.
    fn in_front(&self, prelude: &TokenStream) -> (TokenStream, Option<TokenStream>) {
        let renamed = self.function.renamed.iter().filter(|renamed| renamed.place == MatchedAt::InFront).map(|renamed| {
            let (ident, pat, attrs) = (&renamed.ident, &renamed.pat, &renamed.attrs);
            // Moved here first, so that what the pattern leaves behind drops at the end of this block.
            quote_spanned!(Span::mixed_site()=> #(#attrs)* let #ident = #ident; #(#attrs)* let #pat = #ident;)
        });
        let in_front = quote!(#prelude #(#renamed)*);
        if in_front.is_empty() {
            return (in_front, None);
        }
        let in_front = quote_spanned! {Span::mixed_site()=>
            let __distlock_outside = __distlock_lock.outside();
            #in_front
        };
        let inside =
            quote_spanned!(Span::mixed_site()=> let __distlock_inside = __distlock_outside.inside(););
        (in_front, Some(inside))
    }

    /// The place at which the compiler reports a body that keeps the guard for longer: the name of the guard.
    pub(super) fn place_of_guard(&self) -> Span {
        let place = self.spec.options.guard.as_ref().map_or_else(Span::mixed_site, Ident::span);
        Span::mixed_site().located_at(place)
    }

    /// Statements that bind `held`, an `Option<&Held>`, or leave the block `'lock` with an error. `prelude`: the
    /// statements before them.
    pub(super) fn acquire(&self, way: Acquiring, prelude: &TokenStream) -> TokenStream {
        let private = &self.private;
        let (in_front, inside) = self.in_front(prelude);
        let (asked, on_busy) = (self.asked(), self.on_busy());
        // In a separate block, so that its temporary values are not part of the future that waits for the lock and runs
        // the body.
        let acquired = match way {
            Acquiring::Async => quote_spanned! {Span::mixed_site()=>
                { __distlock_lock.acquire(#asked) }.await
            },
            Acquiring::Blocking => quote_spanned! {Span::mixed_site()=>
                __distlock_lock.acquire_blocking(#asked)
            },
        };
        let acquire = quote_spanned! {Span::mixed_site()=>
            let __distlock_acquired = #acquired;
            #on_busy
            // The parentheses keep other macros from reading `'lock :` as a label.
            if let #private::Err(__distlock_error) = __distlock_acquired {
                break 'lock (#private::Err(__distlock_error));
            }
        };
        let held = quote_spanned!(self.place_of_guard()=> __distlock_lock.held());
        quote_spanned!(Span::mixed_site()=> #in_front #acquire let __distlock_held = #held; #inside)
    }

    /// The name of the lock in spans, events and metrics.
    fn label(&self) -> TokenStream {
        self.spec.label.clone().unwrap_or_else(|| self.path())
    }

    /// The function's path, as a literal.
    pub(super) fn path(&self) -> TokenStream {
        let (private, name) = (&self.private, &self.function.sig.ident);
        quote_spanned! {Span::mixed_site()=>
            #private::concat!(#private::module_path!(), "::", #private::stringify!(#name))
        }
    }

    /// The key or the keys, as an expression.
    fn keys(&self) -> TokenStream {
        let (private, label) = (&self.private, self.label());
        let one = |key: &Key| match key {
            Key::Template(parts) => rendered(private, parts),
            Key::Expr(expr) => {
                // An error about a value that is not a key is reported at this place.
                let method = Ident::new("key", Span::mixed_site().located_at(expr.span()));
                let expr = reference(expr);
                let names = self.function.bindings.iter().map(|binding| binding.ident.unraw().to_string());
                let names: Vec<_> = names.filter(|name| !name.starts_with("__")).collect();
                let checked = (!names.is_empty()).then(|| {
                    quote_spanned!(Span::mixed_site()=> .inspect(|__distlock_key| {
                        #private::literal_placeholder(&__distlock_manager, #label, __distlock_key, &[#(#names),*]);
                    }))
                });
                // In a separate variable, so that an error in the expression is reported once.
                quote_spanned! {Span::mixed_site()=> match #expr {
                    __distlock_value => {
                        use #private::AnyKey as _;
                        #private::KeyOf(__distlock_value).#method() #checked
                    }
                }}
            }
        };
        match &self.spec.keys {
            Keys::One(key) => one(key),
            Keys::Many(keys) => {
                let (count, keys) = (keys.len(), keys.iter().map(one));
                quote_spanned! {Span::mixed_site()=> {
                    let mut __distlock_keys = #private::KeyList::new(#count);
                    #(let __distlock_key = #keys; __distlock_keys.add(__distlock_key);)*
                    __distlock_keys.all()
                }}
            }
            Keys::Iter(expr) => {
                // An error about a value that is not an iterator of keys is reported at this place.
                let place = Span::mixed_site().located_at(expr.span());
                let private = located_at(private.clone(), place);
                quote_spanned!(place=> #private::keys(#expr))
            }
        }
    }

    /// An `Asked` that requests the lock, as an expression.
    fn request(&self) -> TokenStream {
        let Expansion { private, spec, .. } = self;
        let (keys, label, steps) = (self.keys(), self.label(), self.steps());
        let evaluates_nothing = spec.evaluates_nothing();
        let start = match &spec.keys {
            Keys::One(_) => "ask",
            Keys::Many(_) | Keys::Iter(_) => "ask_for_all",
        };
        let start = Ident::new(start, Span::mixed_site());
        let to = |manager: TokenStream| {
            if evaluates_nothing {
                return quote_spanned!(Span::mixed_site()=> #private::#start(#keys, #label, #manager) #(#steps)*);
            }
            // In statements of their own, so that the temporary values of one expression are not part of the future
            // while the next one awaits.
            quote_spanned! {Span::mixed_site()=>
                {
                    let __distlock_key = #keys;
                    let __distlock_asked = #private::#start(__distlock_key, #label, #manager);
                    #(let __distlock_asked = __distlock_asked #steps;)*
                    __distlock_asked
                }
            }
        };
        let bound = || to(quote_spanned!(Span::mixed_site()=> #private::Ok(__distlock_manager)));
        let request = match &spec.options.manager {
            Some(manager) => {
                let (manager, request) = (method(manager, "as_lock_manager"), bound());
                quote_spanned! {Span::mixed_site()=>
                    {
                        let __distlock_manager = {
                            use #private::AsLockManager as _;
                            #manager
                        };
                        #request
                    }
                }
            }
            None if evaluates_nothing => to(quote_spanned!(Span::mixed_site()=> #private::current())),
            // Without a manager, no expression is evaluated.
            None => {
                let request = bound();
                quote_spanned! {Span::mixed_site()=>
                    match #private::current() {
                        #private::Ok(__distlock_manager) => #request,
                        #private::Err(__distlock_error) => #private::ask_in_vain(__distlock_error),
                    }
                }
            }
        };
        if spec.warnings.is_empty() {
            return request;
        }
        // The compiler warns of them where they stand.
        let warnings = spec.warnings.iter().map(|(warning, place)| {
            let warning = match warning {
                Warning::FormerName => "former_name",
                Warning::LiteralName => "literal_name",
            };
            let warning = Ident::new(warning, Span::mixed_site().located_at(*place));
            quote_spanned!(Span::mixed_site()=> #private::#warning();)
        });
        quote_spanned!(Span::mixed_site()=> { #(#warnings)* #request })
    }

    /// A `Duration`.
    pub(super) fn amount(&self, amount: &Amount) -> TokenStream {
        let private = &self.private;
        match amount {
            Amount::Millis(millis) => quote_spanned!(Span::mixed_site()=> #private::millis(#millis)),
            Amount::Expr(expr) => expr.to_token_stream(),
        }
    }

    /// The calls on the request.
    fn steps(&self) -> Vec<TokenStream> {
        let Expansion { private, spec, .. } = self;
        // Without `..`, so that this does not compile for a new option until it is used here, or listed as used
        // elsewhere.
        let Options {
            manager: _,
            when: _,
            ttl,
            wait,
            renew,
            max_hold,
            min_hold,
            shared,
            max_holders,
            reentrant,
            on_busy: _,
            route: _,
            continues: _,
            confirmed,
            warn_wait,
            warn_hold,
            linger,
            guard: _,
            token,
            fence,
            transaction,
        } = &spec.options;
        let wait = match wait {
            Wait::Default => None,
            Wait::No => Some(("no_wait", None)),
            Wait::Forever => Some(("wait_forever", None)),
            Wait::For(wait) => Some(("wait", Some(self.amount(wait)))),
            Wait::Retries { times, delay } => {
                let delay = delay.as_ref().map(|delay| {
                    let delay = self.amount(delay);
                    quote_spanned!(Span::mixed_site()=> .delay(#delay))
                });
                Some((
                    "retry",
                    Some(quote_spanned!(Span::mixed_site()=> #private::Retry::times(#times)#delay)),
                ))
            }
        };
        let release = confirmed.map(|confirmed| {
            let release = Ident::new(if confirmed { "Confirmed" } else { "Background" }, Span::mixed_site());
            quote_spanned!(Span::mixed_site()=> #private::Release::#release)
        });
        let amount = |amount: &Option<Amount>| amount.as_ref().map(|amount| self.amount(amount));
        let given = |name, argument: Option<TokenStream>| argument.map(|argument| (name, Some(argument)));
        let flag = |name, is_set: bool| is_set.then_some((name, None));
        // The expressions are evaluated in this order.
        let steps = [
            given("ttl", amount(ttl)),
            wait,
            flag("no_renew", !renew),
            given("max_hold", amount(max_hold)),
            given("min_hold", amount(min_hold)),
            flag("shared", *shared),
            given("max_holders", max_holders.as_ref().map(Expr::to_token_stream)),
            flag("reentrant", *reentrant),
            given("release", release),
            given("warn_wait", amount(warn_wait)),
            given("warn_hold", amount(warn_hold)),
            given("linger", amount(linger)),
            flag("fenced", token.is_some() || fence.is_some() || transaction.is_some()),
        ];
        let step = |(name, argument)| {
            let name = Ident::new(name, Span::mixed_site());
            quote_spanned!(Span::mixed_site()=> .#name(#argument))
        };
        steps.into_iter().flatten().map(step).collect()
    }

    fn on_busy(&self) -> Option<TokenStream> {
        let private = &self.private;
        let on_busy = self.spec.options.on_busy.as_ref()?;
        // The value may itself end in a `return`. In a branch, lints regard the `return` before it as reachable.
        Some(quote_spanned! {Span::mixed_site()=>
            if #private::is_busy(&__distlock_acquired) {
                #private::drop(__distlock_acquired);
                return if false { #private::placeholder() } else { #on_busy };
            }
        })
    }
}

/// A template as a `Result<LockKey, LockError>`.
pub(super) fn rendered(private: &TokenStream, parts: &[Part]) -> TokenStream {
    let parts = parts.iter().map(|part| match part {
        Part::Text(text) => {
            let text = LitStr::new(&text.value(), Span::mixed_site());
            quote_spanned!(Span::mixed_site()=> #private::Part::Text(#text))
        }
        Part::Value(value) => {
            let (name, expr) = (&value.name, &value.expr);
            let kind = match (value.rendering, value.generic) {
                (Rendering::Escaped, false) => "value",
                (Rendering::Escaped, true) => "generic",
                (Rendering::Raw, false) => "raw",
                (Rendering::Raw, true) => "raw_generic",
            };
            let kind = Ident::new(kind, Span::mixed_site());
            let ty = value.ty.as_ref().map(|ty| quote_spanned!(Span::mixed_site()=> ::<#ty>));
            let borrow = syn::Token![&](value.place);
            quote_spanned!(Span::mixed_site()=> #private::Part::#kind #ty (#name, #borrow #expr))
        }
    });
    quote_spanned!(Span::mixed_site()=> #private::key(&[#(#parts),*]))
}
