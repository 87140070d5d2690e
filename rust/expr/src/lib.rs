//! Predicates and expressions: parse, bind, evaluate, prune; pure
