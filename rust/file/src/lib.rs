//! One Lance v1 data file: footer, page table, statistics, checksums; plan, decode, write
