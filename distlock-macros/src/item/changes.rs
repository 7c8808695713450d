//! Arguments that are changed before the `async` block that is locked: its options would use the new values.

use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Expr, ExprAssign, ExprBinary, ExprMethodCall, ExprReference, Ident, Item, Stmt};

/// The variables to which these statements assign, or that they may change in another way. A method may change only
/// those variables that are `mutable`.
pub(super) fn changed(statements: &[&Stmt], mutable: &[Ident]) -> Vec<Ident> {
    let mut changes = Changes { mutable, names: Vec::new() };
    statements.iter().for_each(|statement| changes.visit_stmt_mut(&mut (*statement).clone()));
    changes.names
}

struct Changes<'a> {
    mutable: &'a [Ident],
    names: Vec<Ident>,
}

impl VisitMut for Changes<'_> {
    fn visit_expr_assign_mut(&mut self, expr: &mut ExprAssign) {
        match &*expr.left {
            Expr::Tuple(tuple) => self.names.extend(tuple.elems.iter().filter_map(variable).cloned()),
            place => self.names.extend(variable(place).cloned()),
        }
        visit_mut::visit_expr_assign_mut(self, expr);
    }

    fn visit_expr_binary_mut(&mut self, expr: &mut ExprBinary) {
        if assigns(&expr.op) {
            self.names.extend(variable(&expr.left).cloned());
        }
        visit_mut::visit_expr_binary_mut(self, expr);
    }

    fn visit_expr_reference_mut(&mut self, expr: &mut ExprReference) {
        if expr.mutability.is_some() {
            self.names.extend(variable(&expr.expr).cloned());
        }
        visit_mut::visit_expr_reference_mut(self, expr);
    }

    fn visit_expr_method_call_mut(&mut self, expr: &mut ExprMethodCall) {
        self.names.extend(variable(&expr.receiver).filter(|name| self.mutable.contains(name)).cloned());
        visit_mut::visit_expr_method_call_mut(self, expr);
    }

    // It has variables of its own.
    fn visit_item_mut(&mut self, _: &mut Item) {}
}

/// The variable that a place belongs to.
fn variable(place: &Expr) -> Option<&Ident> {
    match place {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        Expr::Field(field) => variable(&field.base),
        Expr::Index(index) => variable(&index.expr),
        Expr::Unary(unary) => variable(&unary.expr),
        Expr::Paren(paren) => variable(&paren.expr),
        Expr::Group(group) => variable(&group.expr),
        _ => None,
    }
}

fn assigns(operator: &BinOp) -> bool {
    matches!(
        operator,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}
