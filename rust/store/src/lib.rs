//! Where bytes live: URL to object store, ranged reads, create-if-absent, counters
