//! Filters given as tuples.

use pilum_expr::{DnfValue, Error, Scalar, from_dnf};

#[test]
fn dnf_tuples_mean_what_they_say() {
    let term = |column: &str, op: &str, value: DnfValue| (column.to_owned(), op.to_owned(), value);
    let one = |value: i64| DnfValue::One(value.into());
    let expr = from_dnf(vec![
        vec![term("a", "==", one(1)), term("b", "!=", one(2))],
        vec![term(
            "c",
            "not in",
            DnfValue::Many(vec!["x".into(), Scalar::Null]),
        )],
    ])
    .unwrap();
    assert_eq!(expr.to_string(), "a = 1 AND b <> 2 OR c NOT IN ('x', NULL)");
    for op in ["=", "<", "<=", ">", ">="] {
        let expr = from_dnf(vec![vec![term("a", op, one(1))]]).unwrap();
        assert_eq!(expr.to_string(), format!("a {op} 1"));
    }
    assert!(matches!(from_dnf(vec![]), Err(Error::InvalidInput { .. })));
    assert!(matches!(
        from_dnf(vec![vec![]]),
        Err(Error::InvalidInput { .. })
    ));
    assert!(matches!(
        from_dnf(vec![vec![term("a", "in", one(1))]]),
        Err(Error::InvalidInput { .. })
    ));
    assert!(matches!(
        from_dnf(vec![vec![term("a", "<", DnfValue::Many(vec![]))]]),
        Err(Error::InvalidInput { .. })
    ));
    assert!(matches!(
        from_dnf(vec![vec![term("a", "~", one(1))]]),
        Err(Error::Unsupported { .. })
    ));
}
