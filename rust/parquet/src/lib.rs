//! Parquet files as a source and a sink of tables; footers, page index, statistics.
