//! Dictionary values, which stand in every data file and again at the start of every table manifest (spec section 5.6).

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use bytes::Bytes;
use pilum_encoding::{
    Error as PageError, Page, PageSource, Segments, Validity, decode_dictionary_values,
    encode_dictionary_values, plan_dictionary_bytes, plan_dictionary_values,
};

use crate::error::{Error, Result};
use crate::read::FileReader;
use crate::schema::{DictionaryPosition, Field, FieldId, Schema};
use crate::write::Dictionaries;

/// Encoded dictionary values.
#[derive(Clone, Debug)]
pub struct EncodedDictionary {
    /// The bytes, to be written at the position that was given.
    pub bytes: Vec<u8>,
    /// What `Field.dictionary` says of them.
    pub position: DictionaryPosition,
    /// An empty value is among them: v1 would read it as null, so a reader must be told that it is a value.
    pub has_empty: bool,
}

/// Encodes dictionary values that will start at `position`.
///
/// # Errors
/// `Unsupported` for types that v1 has no form for, `InvalidInput` for null values: a null belongs into the keys.
pub fn encode_dictionary(values: &ArrayRef, position: u64) -> Result<EncodedDictionary> {
    if values.null_count() > 0 {
        let message = "dictionary values hold nulls; put the nulls into the keys".to_owned();
        return Err(Error::InvalidInput { message });
    }
    let page = encode_dictionary_values(values.as_ref(), position)
        .map_err(|error| Error::page("the data to write", "dictionary values", error))?;
    Ok(EncodedDictionary {
        bytes: page
            .buffers
            .iter()
            .flat_map(|buffer| buffer.as_slice())
            .copied()
            .collect(),
        position: DictionaryPosition {
            offset: position + page.pointer,
            length: page.length,
        },
        has_empty: page.needs_extension(),
    })
}

/// Writes the position into the field of that id.
pub fn set_dictionary(fields: &mut [Field], id: FieldId, position: DictionaryPosition) {
    for field in fields {
        if field.id == id {
            field.dictionary = Some(position);
        }
        set_dictionary(&mut field.children, id, position);
    }
}

/// The dictionary fields of a schema with the type and place of their values.
fn dictionary_fields(schema: &Schema) -> impl Iterator<Item = (&Field, &DataType, Page)> {
    schema
        .walk()
        .filter_map(|field| match (&field.data_type, field.dictionary) {
            (DataType::Dictionary(_, value), Some(place)) => Some((
                field,
                value.as_ref(),
                Page {
                    position: place.offset,
                    length: place.length,
                },
            )),
            _ => None,
        })
}

/// Decodes the values of all dictionary fields of `schema` from `bytes`, a whole file.
///
/// `empty_is_null`: the rule of v1, unless the file says that its empty values are values.
///
/// # Errors
/// `Corrupt` with the field.
pub fn decode_dictionaries(
    file: &str,
    schema: &Schema,
    bytes: &Bytes,
    empty_is_null: bool,
) -> Result<Dictionaries> {
    let segments = Segments::new([(0, bytes.clone().into())]);
    dictionary_fields(schema)
        .map(|(field, value, page)| {
            let values =
                decode_dictionary_values(value, &page, &[Validity::V1], empty_is_null, &segments);
            Ok((
                field.id,
                values.map_err(|error| Error::page(file, &field.name, error))?,
            ))
        })
        .collect()
}

impl FileReader {
    /// The dictionary values that this file keeps for itself; a table uses those of its manifest. `schema` is
    /// [`FileReader::schema`].
    ///
    /// # Errors
    /// `Corrupt` with the field.
    pub async fn dictionaries(&self, schema: &Schema) -> Result<Dictionaries> {
        let extension = self.directory.extension.as_ref();
        let empty_is_null = !extension.is_some_and(|extension| extension.dictionary_has_empty);
        let covered = extension.and_then(|extension| extension.dictionaries.as_ref());
        if let Some(extent) = covered {
            let range = extent.position..extent.position.saturating_add(extent.length);
            self.directory
                .read_covered(Some(extent), range, "dictionary values")
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
