//! Reading the dictionary values that a data file keeps for itself (`docs/format.md`, section 3).

use std::ops::Range;

use pilum_encoding::{
    Error as PageError, PageSource, Segments, Validity, decode_dictionary_values,
    plan_dictionary_bytes, plan_dictionary_values,
};
use pilum_format::{Dictionaries, Schema, dictionary_fields};

use crate::directory::Fetched;
use crate::error::{Error, Result};
use crate::reader::FileReader;

impl FileReader {
    /// The dictionary values stored in this file; a table uses those of its manifest instead. `schema` is
    /// [`FileReader::schema`].
    ///
    /// # Errors
    /// `Corrupt` with the column, `Unsupported` for a type of values that is not known, `Store` if the file cannot be read.
    pub async fn dictionaries(&self, schema: &Schema) -> Result<Dictionaries> {
        let extension = self.directory.extension.as_ref();
        let empty_is_null = !extension.is_some_and(|extension| extension.dictionary_has_empty);
        let covered = extension.and_then(|extension| extension.dictionaries.as_ref());
        if let Some(extent) = covered {
            let range = extent.position..extent.position.saturating_add(extent.length);
            self.directory
                .read_covered(Some(extent), range, "dictionary values", &Fetched::NONE)
                .await?;
        }
        let mut dictionaries = Dictionaries::new();
        for (field, value, page) in dictionary_fields(schema) {
            let failed = |error: PageError| Error::page(self.path(), &field.name, error);
            let mut segments = Segments::default();
            for _ in 0..3 {
                let mut wanted: Vec<Range<u64>> = Vec::new();
                plan_dictionary_values(value, &page, &mut wanted).map_err(failed)?;
                match plan_dictionary_bytes(value, &page, &segments, &mut wanted) {
                    Ok(()) | Err(PageError::Missing(_)) => {}
                    Err(error) => return Err(failed(error)),
                }
                wanted.retain(|range| !range.is_empty());
                if wanted
                    .iter()
                    .all(|range| segments.slice(range.clone()).is_ok())
                {
                    break;
                }
                let bytes = self.directory.file.read_ranges(&wanted).await?;
                segments = Segments::new(
                    wanted
                        .iter()
                        .zip(bytes)
                        .map(|(r, bytes)| (r.start, bytes.into())),
                );
            }
            let values =
                decode_dictionary_values(value, &page, &[Validity::V1], empty_is_null, &segments);
            dictionaries.insert(field.id, values.map_err(failed)?);
        }
        Ok(dictionaries)
    }
}
