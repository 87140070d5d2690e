//! Versions of a table: manifests, transactions, conflicts, commits, scans, takes
