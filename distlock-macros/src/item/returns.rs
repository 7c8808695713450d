//! `return` before the `async` block that is locked: the future that it returns would run without the lock.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprAsync, ExprClosure, ExprIf, ExprLit, ExprReturn, Item, Lit, Macro, Stmt};

/// The places at which a function that ends in an `async` block returns before it.
pub(super) fn in_front(statements: &[Stmt]) -> Vec<Span> {
    let mut returns = Returns(Vec::new());
    returns.in_block(&mut statements.to_vec());
    returns.0
}

struct Returns(Vec<Span>);

impl Returns {
    /// In statements of which the last one leads to the `async` block.
    fn in_block(&mut self, statements: &mut [Stmt]) {
        let Some((last, front)) = statements.split_last_mut() else { return };
        front.iter_mut().for_each(|statement| self.visit_stmt_mut(statement));
        if let Stmt::Expr(expr, _) = last {
            self.in_tail(expr);
        }
    }

    /// In an expression that leads to the `async` block, by the ways that `async_block` knows.
    fn in_tail(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Return(returned) => returned.expr.iter_mut().for_each(|expr| self.in_tail(expr)),
            Expr::Paren(paren) => self.in_tail(&mut paren.expr),
            Expr::Group(group) => self.in_tail(&mut group.expr),
            Expr::Block(block) => self.in_block(&mut block.block.stmts),
            Expr::Call(call) => {
                let mut arguments = call.args.iter_mut();
                arguments.next().into_iter().for_each(|first| self.in_tail(first));
                arguments.for_each(|argument| self.visit_expr_mut(argument));
            }
            Expr::MethodCall(call) => {
                self.in_tail(&mut call.receiver);
                call.args.iter_mut().for_each(|argument| self.visit_expr_mut(argument));
            }
            expr => self.visit_expr_mut(expr),
        }
    }
}

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
