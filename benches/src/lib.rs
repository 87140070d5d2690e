//! Criterion benchmarks of the engine.
