//! The arguments of the body, and whether they are used.

use std::collections::HashSet;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, FnArg, Pat, PatIdent, Signature, Token};

use super::patterns::may_bind;
use super::{Argument, Function, MatchedAt, Mention, Rebinding, Renamed, Shape, bound_names, contains_ident};
use crate::places::names_in_literal;

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
    /// Finds out which arguments the options (`values`) and the body mention, and how the body is given them.
    ///
    /// An argument that is never mentioned is bound once more in a place where nothing uses it, so the compiler reports
    /// it as unused. The search for mentions may be wrong: the body could still use such an argument.
    pub(crate) fn find_arguments(&mut self, values: impl Iterator<Item = TokenStream>) {
        let mut in_options = Words::default();
        for value in values {
            // `concat!("<", "id", ">")` is a template.
            let is_joined = contains_ident(value.clone(), &|ident| ident == "concat");
            in_options.read(value, if is_joined { words } else { names_in_literal });
        }
        let mut in_body = Words::default();
        in_body.read(self.body.stream(), words);
        let mention = |name: &Ident| {
            let name = name.unraw().to_string();
            let mentioned = name.starts_with('_') || in_options.has(&name) || in_body.has(&name);
            if mentioned { Mention::Somewhere } else { Mention::Nowhere }
        };
        for renamed in &mut self.renamed {
            let in_options = |name: &Ident| in_options.has(&name.unraw().to_string());
            renamed.place = match &renamed.pat {
                Pat::Wild(_) => MatchedAt::Nowhere,
                pat if may_bind(pat, in_options) => MatchedAt::InFront,
                _ => MatchedAt::InBody,
            };
        }
        let (mut arguments, mut rebindings) = (Vec::new(), Vec::<Rebinding>::new());
        if let Shape::Future(future) = &self.shape {
            let given =
                |ident: &Ident| Argument { ident: ident.clone(), attrs: Vec::new(), mention: mention(ident) };
            arguments.extend(future.rebound.iter().map(given));
        } else {
            for input in &self.sig.inputs {
                let FnArg::Typed(typed) = input else { continue };
                let attrs = conditions(&typed.attrs);
                // The values that a pattern in the body does not bind drop in the body. So the parameters that are
                // declared after it must be declared after it in the body, too.
                let is_behind = !rebindings.is_empty();
                let renamed = self.renamed.iter().find(|renamed| is_name(&typed.pat, &renamed.ident));
                if let Some(Renamed {
                    ident,
                    pat,
                    place: place @ (MatchedAt::InBody | MatchedAt::Nowhere),
                    ..
                }) = renamed
                {
                    if is_behind || *place == MatchedAt::InBody {
                        let pat = (*place == MatchedAt::InBody).then(|| pat.clone());
                        let (ident, attrs) = (ident.clone(), attrs.clone());
                        rebindings.push(Rebinding { ident, pat, mutability: None, attrs });
                    }
                    arguments.push(Argument { ident: ident.clone(), attrs, mention: Mention::Somewhere });
                    continue;
                }
                let pat = renamed.map_or(&*typed.pat, |renamed| &renamed.pat);
                let mut names = Vec::new();
                bound_names(pat, &mut names);
                for ident in names {
                    let mutability = mutability(pat, &ident);
                    let mut mention = mention(&ident);
                    let mut attrs = attrs.clone();
                    let in_front = renamed.is_some()
                        || mutability.is_some() && in_options.has(&ident.unraw().to_string());
                    let lints = typed.attrs.iter().filter(|attr| is_about_lints(attr)).cloned();
                    if is_behind && !in_front {
                        let mut attrs = attrs.clone();
                        if mention == Mention::Nowhere {
                            attrs.extend(lints);
                        }
                        rebindings.push(Rebinding { ident: ident.clone(), pat: None, mutability, attrs });
                        mention = Mention::Somewhere;
                    } else if mention == Mention::Nowhere && renamed.is_none() {
                        attrs.extend(lints);
                    }
                    arguments.push(Argument { ident, attrs, mention });
                }
            }
        }
        (self.arguments, self.rebindings) = (arguments, rebindings);
        self.move_expectations();
    }

    /// The signature of the locked function: an argument that the body binds as `mut` need not be `mut` in the
    /// signature.
    pub(super) fn locked_signature(&self) -> Signature {
        let mut sig = self.sig.clone();
        let moved = self.rebindings.iter().filter(|rebinding| rebinding.mutability.is_some());
        let mut without_mut = WithoutMut(moved.map(|rebinding| &rebinding.ident).collect());
        if !without_mut.0.is_empty() {
            without_mut.visit_signature_mut(&mut sig);
        }
        sig
    }

    /// `#[expect(unused_variables)]` on a parameter is met where the parameter is bound once more.
    fn move_expectations(&mut self) {
        for input in &mut self.sig.inputs {
            let FnArg::Typed(typed) = input else { continue };
            let mut names = Vec::new();
            bound_names(&typed.pat, &mut names);
            let unused = self.arguments.iter().filter(|argument| argument.mention == Mention::Nowhere);
            let is_expected = |attr: &Attribute| attr.path().is_ident("expect");
            let rebound = self.rebindings.iter().filter(|rebinding| rebinding.attrs.iter().any(is_expected));
            let rebound = rebound.map(|rebinding| &rebinding.ident);
            let moved =
                unused.map(|argument| &argument.ident).chain(rebound).any(|ident| names.contains(ident));
            if moved {
                typed.attrs.retain(|attr| !attr.path().is_ident("expect"));
            }
        }
    }
}

fn is_name(pat: &Pat, name: &Ident) -> bool {
    matches!(pat, Pat::Verbatim(tokens) if *name == tokens.to_string())
}

/// `mut`, where a pattern binds that name so.
pub(super) fn mutability(pat: &Pat, name: &Ident) -> Option<Token![mut]> {
    struct Find<'a>(&'a Ident, Option<Token![mut]>);
    impl VisitMut for Find<'_> {
        fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
            if pat.ident == *self.0 {
                self.1 = self.1.or(pat.mutability);
            }
            visit_mut::visit_pat_ident_mut(self, pat);
        }
    }
    let mut find = Find(name, None);
    find.visit_pat_mut(&mut pat.clone());
    find.1
}

/// Takes `mut` from these names.
struct WithoutMut<'a>(Vec<&'a Ident>);

impl VisitMut for WithoutMut<'_> {
    fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
        if self.0.contains(&&pat.ident) {
            pat.mutability = None;
        }
        visit_mut::visit_pat_ident_mut(self, pat);
    }
}

/// The words in the source of a literal.
fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
}

/// The names that occur somewhere, also in literals, which may be format strings and key templates.
#[derive(Default)]
struct Words(HashSet<String>);

impl Words {
    fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    fn read(&mut self, tokens: TokenStream, in_literal: fn(&str) -> Vec<String>) {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    self.0.insert(ident.unraw().to_string());
                }
                TokenTree::Group(group) => self.read(group.stream(), in_literal),
                TokenTree::Literal(literal) => self.0.extend(in_literal(&literal.to_string())),
                TokenTree::Punct(_) => {}
            }
        }
    }
}
