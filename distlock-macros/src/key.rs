//! `key!("order:<id>", id = expr)`: the attribute's template as an expression.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Expr, LitStr, Token, Type};

use crate::diag::{self, Errors};
use crate::{expand, spec};

/// The named values of one call; a name that is not among them is a variable in scope, as in `format!`.
struct Values {
    values: Vec<(Ident, Expr)>,
    template: Span,
}

impl spec::Names for Values {
    fn variable(&self, root: &str) -> Option<Ident> {
        let named = self.values.iter().map(|(name, _)| name).find(|name| name.unraw() == root);
        // The literal's span gives the name the hygiene of the place where the template was written.
        Some(named.cloned().unwrap_or_else(|| spec::identifier(root, self.template)))
    }

    fn receiver(&self) -> Option<Ident> {
        Some(Ident::new("self", self.template))
    }

    fn ty(&self, _: &str) -> Option<Type> {
        None
    }

    fn origin(&self, root: &str) -> Option<Span> {
        self.values.iter().map(|(name, _)| name).find(|name| name.unraw() == root).map(Ident::span)
    }

    fn is_generic(&self, _: &Type) -> bool {
        false
    }

    fn all(&self) -> Vec<String> {
        self.values.iter().map(|(name, _)| name.unraw().to_string()).collect()
    }

    fn positional(&self, _: usize) -> Option<String> {
        None
    }
}

/// Expands `key!`.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let mut krate = quote!(::distlock);
    let parser = |input: ParseStream<'_>| parse(input, &mut krate, &mut errors);
    let key = match parser.parse2(input) {
        Err(error) => {
            errors.push(error);
            None
        }
        Ok((template, values)) => {
            let names = Values { values, template: template.span() };
            let parts = spec::template(&template, &names, &mut errors).unwrap_or_default();
            for (name, _) in &names.values {
                let root = name.unraw().to_string();
                let used = |part: &spec::Part| match part {
                    spec::Part::Value(value) => value.name.split('.').next() == Some(&root),
                    spec::Part::Text(_) => false,
                };
                if !parts.is_empty() && !parts.iter().any(used) {
                    errors.push(diag::unused_value(name));
                }
            }
            Some((names.values, parts))
        }
    };
    match (errors.into_error(), key) {
        (None, Some((values, parts))) => expand::key_macro(&krate, &values, &parts),
        (error, _) => {
            // An expression of the right type, so that nothing else is reported.
            let errors = error.map(syn::Error::into_compile_error);
            quote!({ #errors #krate::__private::placeholder::<::core::result::Result<#krate::LockKey, #krate::LockError>>() })
        }
    }
}

type Input = (LitStr, Vec<(Ident, Expr)>);

fn parse(input: ParseStream<'_>, krate: &mut TokenStream, errors: &mut Errors) -> syn::Result<Input> {
    if input.peek(Token![crate]) && input.peek2(Token![=]) {
        input.parse::<Token![crate]>()?;
        input.parse::<Token![=]>()?;
        let path = input.parse::<syn::Path>()?;
        *krate = quote!(#path);
        input.parse::<Token![,]>()?;
    }
    let template = input.parse::<LitStr>().map_err(|error| diag::key_macro_without_template(error.span()))?;
    let mut values: Vec<(Ident, Expr)> = Vec::new();
    while !input.is_empty() {
        input.parse::<Token![,]>().map_err(|error| diag::missing_comma(error.span()))?;
        if input.is_empty() {
            break;
        }
        let start = input.span();
        let name = input.call(Ident::parse_any).map_err(|_| diag::key_macro_argument(start))?;
        let written = name.unraw().to_string();
        if ["self", "Self", "super", "crate", "_"].contains(&written.as_str()) {
            return Err(diag::key_macro_argument(start));
        }
        let name = spec::identifier(&written, name.span());
        input.parse::<Token![=]>().map_err(|_| diag::key_macro_argument(start))?;
        let value = input.parse()?;
        if values.iter().any(|(other, _)| *other == name) {
            errors.push(diag::duplicate_value(&name));
        } else {
            values.push((name, value));
        }
    }
    Ok((template, values))
}
