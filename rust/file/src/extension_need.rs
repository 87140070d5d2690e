//! Whether some columns of a file need the extension: not every column of a file that needs it does.

use arrow_schema::DataType;
use pilum_encoding::Validity;
use pilum_format::Schema;

use crate::FileReader;
use crate::directory::Fetched;
use crate::error::Result;

impl FileReader {
    /// Whether a reader that ignores the extension block would read wrong values in the columns of `schema`, which the file
    /// holds. Reads the page tables of these columns and none of their pages.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) for a damaged page table, [`Error::Store`](crate::Error::Store) when the
    /// file cannot be read.
    pub async fn columns_need_extension(&self, schema: &Schema) -> Result<bool> {
        let Some(extension) = (self.directory.extension.as_ref()).filter(|it| it.required) else {
            return Ok(false);
        };
        let is_dictionary = |data_type: &DataType| matches!(data_type, DataType::Dictionary(..));
        let has_dictionary = schema.walk().any(|field| is_dictionary(&field.data_type));
        if schema.is_beyond_v1() || has_dictionary && extension.dictionary_has_empty {
            return Ok(true);
        }
        for field in schema.walk() {
            let column = self
                .directory
                .column(self.first_id(), field.id, &field.name, &Fetched::NONE)
                .await?;
            let mut levels = column.pages.iter().flat_map(|page| &page.validity);
            if levels.any(|level| *level != Validity::V1) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
