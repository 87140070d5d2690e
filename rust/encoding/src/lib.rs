//! Pages of a Lance v1 file to and from Arrow arrays; pure
