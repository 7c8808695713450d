//! `return` before the `async` block that is locked: the future that it returns would run without the lock.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprAsync, ExprClosure, ExprIf, ExprLit, ExprReturn, Item, Lit, Macro, Stmt};

/// The places at which these statements return from their function.
pub(super) fn places(mut statements: Vec<Stmt>) -> Vec<Span> {
    let mut returns = Returns(Vec::new());
    statements.iter_mut().for_each(|statement| returns.visit_stmt_mut(statement));
    returns.0
}

struct Returns(Vec<Span>);

impl VisitMut for Returns {
    fn visit_expr_return_mut(&mut self, returned: &mut ExprReturn) {
        self.0.push(returned.return_token.span());
        visit_mut::visit_expr_return_mut(self, returned);
    }

    /// `if false { return .. }` gives other macros a type.
    fn visit_expr_if_mut(&mut self, expr: &mut ExprIf) {
        if is_false(&expr.cond) {
            expr.else_branch.iter_mut().for_each(|(_, other)| self.visit_expr_mut(other));
        } else {
            visit_mut::visit_expr_if_mut(self, expr);
        }
    }

    /// The expansion of a macro is not known, so a `return` among its tokens counts.
    fn visit_macro_mut(&mut self, mac: &mut Macro) {
        self.0.extend(return_token(mac.tokens.clone()));
    }

    // These return to another caller.
    fn visit_expr_async_mut(&mut self, _: &mut ExprAsync) {}
    fn visit_expr_closure_mut(&mut self, _: &mut ExprClosure) {}
    fn visit_item_mut(&mut self, _: &mut Item) {}
}

fn is_false(expr: &Expr) -> bool {
    matches!(expr, Expr::Lit(ExprLit { lit: Lit::Bool(literal), .. }) if !literal.value)
}

fn return_token(tokens: TokenStream) -> Option<Span> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) => (ident == "return").then(|| ident.span()),
        TokenTree::Group(group) => return_token(group.stream()),
        _ => None,
    })
}
