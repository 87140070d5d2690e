//! Expressions over other names: each column replaced by another one.

use crate::{
    expr::{Case, Expr, Like, Node, call, coalesce},
    path::ColumnPath,
};

impl Expr {
    /// The same expression with each column replaced by the one that `rename` gives.
    ///
    /// # Errors
    /// The first error of `rename`.
    pub fn with_columns<E>(
        &self,
        rename: &impl Fn(&ColumnPath) -> Result<ColumnPath, E>,
    ) -> Result<Self, E> {
        let one = |inner: &Self| inner.with_columns(rename);
        let many = |inner: &[Self]| inner.iter().map(one).collect::<Result<Vec<_>, E>>();
        Ok(match self.node() {
            Node::Column(path) => Self::column(rename(path)?),
            Node::Literal(_) | Node::TooDeep => self.clone(),
            Node::Compare(op, left, right) => one(left)?.compare(*op, one(right)?),
            Node::And(terms) => Self::all(many(terms)?).unwrap_or_else(|| self.clone()),
            Node::Or(terms) => Self::any(many(terms)?).unwrap_or_else(|| self.clone()),
            Node::Not(inner) => one(inner)?.not(),
            Node::In(inner, list) => one(inner)?.is_in(many(list)?),
            Node::Among(inner, values) => one(inner)?.is_among(values.clone()),
            Node::Between(inner, low, high) => one(inner)?.between(one(low)?, one(high)?),
            Node::IsNull(inner) => one(inner)?.is_null(),
            Node::Like(Like {
                operand,
                pattern,
                escape,
                ignore_case,
            }) => one(operand)?.like_with(one(pattern)?, *escape, *ignore_case),
            Node::Arithmetic(op, left, right) => one(left)?.arithmetic(*op, one(right)?),
            Node::Negate(inner) => one(inner)?.neg(),
            Node::Cast(inner, data_type) => one(inner)?.cast(data_type.clone()),
            Node::TryCast(inner, data_type) => one(inner)?.try_cast(data_type.clone()),
            Node::Case(Case {
                operand,
                branches,
                otherwise,
            }) => {
                let branches = branches
                    .iter()
                    .map(|(when, then)| Ok((one(when)?, one(then)?)));
                Self::case(
                    operand.as_ref().map(one).transpose()?,
                    branches.collect::<Result<Vec<_>, E>>()?,
                    otherwise.as_ref().map(one).transpose()?,
                )
            }
            Node::Coalesce(arguments) => coalesce(many(arguments)?),
            Node::Call(function, arguments) => call(*function, many(arguments)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{ColumnPath, parse_sql};

    #[test]
    fn every_kind_of_node_gets_the_new_names() {
        let text = "t.a + -t.b > 2 AND (t.c IN (1, t.d) OR NOT t.e IS NULL) AND t.f BETWEEN t.g AND 9 \
             AND t.h LIKE t.i AND CAST(t.j AS BIGINT) = TRY_CAST(t.k AS BIGINT) \
             AND CASE t.l WHEN t.m THEN t.n ELSE t.o END AND COALESCE(t.p, t.q) AND STARTS_WITH(t.r, 'x')";
        let plain = |path: &ColumnPath| -> Result<ColumnPath, ()> {
            Ok(ColumnPath::new(path.names()[1..].to_vec()))
        };
        let renamed = parse_sql(text).unwrap().with_columns(&plain).unwrap();
        assert_eq!(renamed, parse_sql(&text.replace("t.", "")).unwrap());
        let refused = |_: &ColumnPath| Err("no column");
        assert_eq!(
            parse_sql("a > 1").unwrap().with_columns(&refused),
            Err("no column")
        );
    }
}
