//! When the rows of tables become batches: of one table, of all, or of the largest when the memory is used up.

use super::Decoder;

impl Decoder {
    /// Makes a batch of the rows of one table.
    pub(super) fn flush(&mut self, table: usize) {
        if self.filled.remove(&table) {
            self.make_batch(table);
        }
    }

    fn make_batch(&mut self, table: usize) {
        let Some(Some(rows)) = self.tables.get_mut(table) else {
            return;
        };
        self.num_bytes = self.num_bytes.saturating_sub(rows.num_bytes);
        let before = rows.num_special();
        match rows.finish() {
            Ok(batch) => self.ready.push_back((table, batch)),
            Err(error) => self.failed = Some(error),
        }
        self.num_special += rows.num_special() - before;
    }

    /// Makes batches of all rows, in the order of their tables.
    pub(super) fn flush_all(&mut self) {
        let mut filled: Vec<_> = self.filled.drain().collect();
        filled.sort_unstable();
        for table in filled {
            self.make_batch(table);
        }
    }

    /// Makes batches of the largest tables until half of the memory is free: then as much must come before the next time, so
    /// that the tables are not looked through for every batch.
    pub(super) fn flush_largest(&mut self) {
        let bytes = |table: &usize| {
            let rows = self.tables.get(*table).and_then(Option::as_ref);
            rows.map_or(0, |rows| rows.num_bytes)
        };
        let mut filled: Vec<_> = self.filled.iter().copied().collect();
        filled.sort_by_cached_key(|table| (bytes(table), *table));
        while self.num_bytes > self.options.batch_bytes / 2
            && let Some(table) = filled.pop()
        {
            self.flush(table);
        }
    }
}
