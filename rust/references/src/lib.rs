//! Reference sets: JSON versions 0 and 1, Parquet, templates, byte ranges, zarr views of tables.
