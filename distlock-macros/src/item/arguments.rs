//! What the body is given, and whether anything uses it.

use std::collections::HashSet;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::{Attribute, FnArg, Pat};

use super::{Argument, Function, Mention, Shape, bound_names, contains_ident};

/// The attributes that decide whether a parameter exists.
pub(crate) fn conditions(attrs: &[Attribute]) -> Vec<Attribute> {
    attrs.iter().filter(|attr| is_condition(attr)).cloned().collect()
}

fn is_condition(attr: &Attribute) -> bool {
    attr.path().is_ident("cfg")
        || attr.path().is_ident("cfg_attr")
            && contains_ident(attr.meta.to_token_stream(), &|ident| ident == "cfg")
}

fn is_about_lints(attr: &Attribute) -> bool {
    ["allow", "expect", "warn", "deny", "forbid"].iter().any(|level| attr.path().is_ident(level))
}

impl Function {
    /// Finds out which arguments the options (`values`) and the body mention.
    ///
    /// An argument that nobody mentions is bound once more outside the body, where the compiler finds that it is
    /// unused. It does not have to be right about that: the body could still use it.
    pub(crate) fn find_arguments(&mut self, values: impl Iterator<Item = TokenStream>) {
        let mut words = Words::default();
        words.read(self.body.stream());
        values.for_each(|value| words.read(value));
        let mut arguments = Vec::new();
        let mut add = |pat: &Pat, attrs: Vec<Attribute>, lints: &[Attribute]| {
            let mut names = Vec::new();
            bound_names(pat, &mut names);
            for ident in names {
                let name = ident.unraw().to_string();
                let mention = if name.starts_with('_') { Mention::Somewhere } else { words.mention(&name) };
                let mut attrs = attrs.clone();
                if mention == Mention::Nowhere {
                    attrs.extend_from_slice(lints);
                }
                arguments.push(Argument { ident, attrs, mention });
            }
        };
        if let Shape::Future(future) = &self.shape {
            for ident in &future.rebound {
                let mention = words.mention(&ident.unraw().to_string());
                arguments.push(Argument { ident: ident.clone(), attrs: Vec::new(), mention });
            }
        } else {
            for input in &self.sig.inputs {
                let FnArg::Typed(typed) = input else { continue };
                let lints: Vec<_> = typed.attrs.iter().filter(|attr| is_about_lints(attr)).cloned().collect();
                add(&typed.pat, conditions(&typed.attrs), &lints);
            }
            for renamed in &self.renamed {
                add(&renamed.pat, renamed.attrs.clone(), &[]);
            }
        }
        self.arguments = arguments;
        self.move_expectations();
    }

    /// `#[expect(unused_variables)]` on a parameter is met where the parameter is bound once more.
    fn move_expectations(&mut self) {
        for input in &mut self.sig.inputs {
            let FnArg::Typed(typed) = input else { continue };
            let mut names = Vec::new();
            bound_names(&typed.pat, &mut names);
            let moved = self
                .arguments
                .iter()
                .any(|argument| argument.mention == Mention::Nowhere && names.contains(&argument.ident));
            if moved {
                typed.attrs.retain(|attr| !attr.path().is_ident("expect"));
            }
        }
    }
}

/// The names that occur somewhere, also in literals, which may be format strings and key templates.
#[derive(Default)]
struct Words(HashSet<String>);

impl Words {
    fn mention(&self, name: &str) -> Mention {
        if self.0.contains(name) { Mention::Somewhere } else { Mention::Nowhere }
    }

    fn read(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    self.0.insert(ident.unraw().to_string());
                }
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
                    self.0.extend(words.map(str::to_owned));
                }
                TokenTree::Punct(_) => {}
            }
        }
    }
}
