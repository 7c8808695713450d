//! Arguments that are changed before the `async` block that is locked: its options would use the new values.

use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Expr, ExprAssign, ExprBinary, ExprMethodCall, ExprReference, Ident, Item, Member, Stmt};

use crate::places::Place;

/// The places to which these statements assign, or that they may change in another way, with their variables. A method
/// may change only those variables that are `mutable`. A method of `self` itself does not count: most only read.
pub(super) fn changed(mut statements: Vec<Stmt>, mutable: &[Ident]) -> Vec<(Ident, Place)> {
    let mut changes = Changes { mutable, places: Vec::new() };
    statements.iter_mut().for_each(|statement| changes.visit_stmt_mut(statement));
    changes.places
}

struct Changes<'a> {
    mutable: &'a [Ident],
    places: Vec<(Ident, Place)>,
}

impl VisitMut for Changes<'_> {
    fn visit_expr_assign_mut(&mut self, expr: &mut ExprAssign) {
        match &*expr.left {
            Expr::Tuple(tuple) => self.places.extend(tuple.elems.iter().filter_map(place)),
            left => self.places.extend(place(left)),
        }
        visit_mut::visit_expr_assign_mut(self, expr);
    }

    fn visit_expr_binary_mut(&mut self, expr: &mut ExprBinary) {
        if assigns(&expr.op) {
            self.places.extend(place(&expr.left));
        }
        visit_mut::visit_expr_binary_mut(self, expr);
    }

    fn visit_expr_reference_mut(&mut self, expr: &mut ExprReference) {
        if expr.mutability.is_some() {
            self.places.extend(place(&expr.expr));
        }
        visit_mut::visit_expr_reference_mut(self, expr);
    }

    fn visit_expr_method_call_mut(&mut self, expr: &mut ExprMethodCall) {
        if !only_reads(&expr.method) {
            let may_change = |(name, place): &(Ident, Place)| {
                self.mutable.contains(name) && (name != "self" || !place.fields.is_empty())
            };
            self.places.extend(place(&expr.receiver).filter(may_change));
        }
        visit_mut::visit_expr_method_call_mut(self, expr);
    }

    // It has variables of its own.
    fn visit_item_mut(&mut self, _: &mut Item) {}
}

/// Whether methods of this name take `&self`, by convention.
fn only_reads(method: &Ident) -> bool {
    let name = method.to_string();
    let is_prefixed = ["to_", "as_", "is_"].iter().any(|prefix| name.starts_with(prefix));
    matches!(name.as_str(), "clone" | "len" | "iter") || is_prefixed && !name.contains("mut")
}

/// The place that an expression stands for, with its variable.
fn place(expr: &Expr) -> Option<(Ident, Place)> {
    match expr {
        Expr::Path(path) if path.qself.is_none() => {
            let name = path.path.get_ident()?;
            Some((name.clone(), Place { root: name.unraw().to_string(), fields: Vec::new() }))
        }
        Expr::Field(field) => {
            let (name, mut place) = place(&field.base)?;
            place.fields.push(match &field.member {
                Member::Named(name) => name.unraw().to_string(),
                Member::Unnamed(index) => index.index.to_string(),
            });
            Some((name, place))
        }
        Expr::Index(index) => place(&index.expr),
        Expr::Unary(unary) => place(&unary.expr),
        Expr::Paren(paren) => place(&paren.expr),
        Expr::Group(group) => place(&group.expr),
        _ => None,
    }
}

fn assigns(operator: &BinOp) -> bool {
    let operator = operator.to_token_stream().to_string();
    operator.ends_with('=') && !matches!(operator.as_str(), "==" | "<=" | ">=" | "!=")
}
