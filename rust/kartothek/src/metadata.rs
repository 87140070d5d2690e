//! The metadata document, version 4: what a dataset consists of. Reading and writing keep every member, also unknown ones.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::error::{Error, Result};
use crate::json_text::{JsonText, check_shape, json_of_message_pack, text_entry};
use crate::limits::Limits;
use crate::names::{DocumentForm, check_uuid, shortened};
use crate::partitions::{self, AllPartitions, Partition};

/// The version that this crate reads and writes.
pub const METADATA_VERSION: i64 = 4;
/// The member of the user metadata with the time of creation: naive UTC in ISO 8601.
pub const CREATION_TIME: &str = "creation_time";

const COMPRESSION_LEVEL: i32 = 10;

/// A metadata document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetMetadata {
    /// The name of the dataset.
    pub uuid: String,
    /// User metadata.
    pub user: BTreeMap<String, JsonText>,
    /// Partitions by label; `None` if the document does not list them, and the data files of the store are the partitions.
    pub partitions: Option<BTreeMap<String, Partition>>,
    /// Secondary indices by column.
    pub indices: BTreeMap<String, IndexReference>,
    /// Columns whose values are in the paths, in order; `None` if the document does not name them, and the path of the first
    /// partition does.
    pub partition_keys: Option<Vec<String>>,
    /// Members that this version of the format does not have.
    pub others: BTreeMap<String, JsonText>,
}

/// Where a secondary index is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexReference {
    /// In an index file, by its key.
    File(String),
    /// In the document: labels by value, as texts. Old versions wrote this.
    Embedded(BTreeMap<String, Vec<String>>),
}

impl DatasetMetadata {
    /// A document without partitions.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` if `uuid` is not a valid name of a dataset.
    pub fn new(uuid: &str) -> Result<Self> {
        check_uuid(uuid)?;
        Ok(Self {
            uuid: uuid.to_owned(),
            user: BTreeMap::new(),
            partitions: Some(BTreeMap::new()),
            indices: BTreeMap::new(),
            partition_keys: Some(Vec::new()),
            others: BTreeMap::new(),
        })
    }

    /// Reads a document. `path` is its address for messages, `uuid` the name in its key.
    ///
    /// # Errors
    /// `CommonError::Corrupt` for bytes that are no such document or belong to another dataset, `CommonError::Unsupported` for another
    /// version, `CommonError::Limit` for a document beyond the limits.
    pub fn parse(
        bytes: &[u8],
        form: DocumentForm,
        path: &str,
        uuid: &str,
        limits: &Limits,
    ) -> Result<Self> {
        let too_large = |needed: String| {
            Error::limit(
                format!("{path}: the metadata document"),
                needed,
                format!("{} bytes", limits.document_bytes),
            )
        };
        let text = match form {
            DocumentForm::Json => None,
            DocumentForm::MessagePack => {
                let bytes = unzipped(bytes, path, limits)?;
                let text = json_of_message_pack(&bytes, limits);
                Some(text.map_err(|reason| Error::corrupt(path, reason))?)
            }
        };
        let json = text.as_deref().map_or(bytes, str::as_bytes);
        if json.len() as u64 > limits.document_bytes {
            return Err(too_large(format!("{} bytes", json.len())));
        }
        check_shape(json, limits).map_err(|reason| Error::corrupt(path, reason))?;
        let document: Document = serde_json::from_slice(json)
            .map_err(|error| Error::corrupt(path, error.to_string()))?;
        document.checked(path, uuid)
    }

    /// The bytes of the document.
    ///
    /// # Errors
    /// `CommonError::Unsupported` for a number in the user metadata that MessagePack does not have.
    pub fn to_bytes(&self, form: DocumentForm) -> Result<Vec<u8>> {
        self.to_bytes_with(&self.user, form)
    }

    /// As [`to_bytes`](Self::to_bytes), with other user metadata.
    pub(crate) fn to_bytes_with(
        &self,
        user: &BTreeMap<String, JsonText>,
        form: DocumentForm,
    ) -> Result<Vec<u8>> {
        let written = Written {
            of: self,
            user,
            form,
        };
        let failed = |error: String| {
            Error::unsupported(
                format!("dataset `{}`", self.uuid),
                format!("this user metadata ({error})"),
                "change it or keep the document as JSON",
            )
        };
        match form {
            DocumentForm::Json => serde_json::to_vec(&written).map_err(|it| failed(it.to_string())),
            DocumentForm::MessagePack => {
                let packed = rmp_serde::to_vec(&written).map_err(|it| failed(it.to_string()))?;
                zstd::bulk::compress(&packed, COMPRESSION_LEVEL)
                    .map_err(|error| Error::bug(format!("dataset `{}`: zstd: {error}", self.uuid)))
            }
        }
    }

    /// The tables, in the order of their names, as the first partition lists them.
    #[must_use]
    pub fn tables(&self) -> Vec<String> {
        let first = self.partitions.iter().flat_map(BTreeMap::values).next();
        first
            .map(|it| it.files.tables().map(str::to_owned).collect())
            .unwrap_or_default()
    }

    /// The time of creation, if the document has one.
    #[must_use]
    pub fn creation_time(&self) -> Option<String> {
        self.user.get(CREATION_TIME)?.as_string()
    }
}

/// Decompresses a document; the frame may not hold more than the limit, whatever it declares.
fn unzipped(bytes: &[u8], path: &str, limits: &Limits) -> Result<Vec<u8>> {
    let damaged = |error: std::io::Error| Error::corrupt(path, format!("its zstd frame: {error}"));
    let decoder = zstd::stream::read::Decoder::with_buffer(bytes).map_err(damaged)?;
    let mut unzipped = Vec::new();
    let mut limited = decoder.take(limits.document_bytes.saturating_add(1));
    limited.read_to_end(&mut unzipped).map_err(damaged)?;
    match unzipped.len() as u64 > limits.document_bytes {
        true => Err(Error::limit(
            format!("{path}: the metadata document"),
            format!("more than {} bytes", limits.document_bytes),
            format!("{} bytes", limits.document_bytes),
        )),
        false => Ok(unzipped),
    }
}

/// A document as it is parsed; members are checked afterwards, so that messages tell their meaning.
#[derive(Default)]
struct Document {
    version: Option<JsonText>,
    uuid: Option<String>,
    user: Option<BTreeMap<String, JsonText>>,
    partitions: Option<BTreeMap<String, Partition>>,
    indices: Option<BTreeMap<String, IndexReference>>,
    partition_keys: Option<Vec<String>>,
    others: BTreeMap<String, JsonText>,
}

impl Document {
    fn checked(self, path: &str, uuid: &str) -> Result<DatasetMetadata> {
        let missing = |name: &str| Error::corrupt(path, format!("the member `{name}` is missing"));
        let version = self
            .version
            .ok_or_else(|| missing("dataset_metadata_version"))?;
        match version.get().parse::<i64>() {
            Ok(METADATA_VERSION) => {}
            Ok(other) => {
                let hint = match other < METADATA_VERSION {
                    true => "rewrite the dataset with Kartothek 3 to 5",
                    false => "use a newer version of pilum",
                };
                return Err(Error::unsupported(
                    path,
                    format!("metadata version {other}"),
                    hint,
                ));
            }
            Err(_) => {
                return Err(Error::corrupt(
                    path,
                    format!(
                        "`dataset_metadata_version` is {}, which is no integer",
                        shortened(version.get())
                    ),
                ));
            }
        }
        let found = self.uuid.ok_or_else(|| missing("dataset_uuid"))?;
        if found != uuid {
            return Err(Error::corrupt(
                path,
                format!(
                    "it belongs to dataset {:?}; a document cannot be renamed, copy the dataset instead",
                    shortened(&found)
                ),
            ));
        }
        Ok(DatasetMetadata {
            uuid: found,
            user: self.user.unwrap_or_default(),
            partitions: self.partitions,
            indices: self.indices.unwrap_or_default(),
            partition_keys: self.partition_keys,
            others: self.others,
        })
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Document;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map, the metadata document of a dataset")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Document, A::Error> {
                let mut found = Document::default();
                while let Some(name) = members.next_key::<String>()? {
                    match name.as_str() {
                        "dataset_metadata_version" => found.version = Some(members.next_value()?),
                        "dataset_uuid" => found.uuid = Some(members.next_value()?),
                        // `null` is refused for these three, as Kartothek does.
                        "metadata" => found.user = Some(members.next_value()?),
                        "partitions" => {
                            let AllPartitions(partitions) = members.next_value()?;
                            found.partitions = Some(partitions);
                        }
                        "indices" => found.indices = Some(members.next_value()?),
                        "partition_keys" => found.partition_keys = members.next_value()?,
                        _ => {
                            let value = members.next_value()?;
                            found.others.insert(name, value);
                        }
                    }
                }
                Ok(found)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl<'de> Deserialize<'de> for IndexReference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = IndexReference;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the key of an index file, or a map of values to labels")
            }

            fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<IndexReference, E> {
                Ok(IndexReference::File(key.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut members: A,
            ) -> Result<IndexReference, A::Error> {
                let mut labels = BTreeMap::new();
                while let Some((value, found)) = members.next_entry::<String, Vec<String>>()? {
                    labels.insert(value, found);
                }
                Ok(IndexReference::Embedded(labels))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// A document in one of its forms. All six members are written, as Kartothek's own checks want them.
struct Written<'a> {
    of: &'a DatasetMetadata,
    user: &'a BTreeMap<String, JsonText>,
    form: DocumentForm,
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let DatasetMetadata {
            uuid,
            user: _,
            partitions,
            indices,
            partition_keys,
            others,
        } = self.of;
        let optional = usize::from(partitions.is_some()) + usize::from(partition_keys.is_some());
        let mut map = serializer.serialize_map(Some(4 + optional + others.len()))?;
        map.serialize_entry("dataset_metadata_version", &METADATA_VERSION)?;
        map.serialize_entry("dataset_uuid", uuid)?;
        map.serialize_entry("indices", indices)?;
        map.serialize_entry("metadata", &Members(self.user, self.form))?;
        if let Some(partition_keys) = partition_keys {
            map.serialize_entry("partition_keys", partition_keys)?;
        }
        if let Some(partitions) = partitions {
            let written = partitions::Written(partitions, self.form);
            map.serialize_entry("partitions", &written)?;
        }
        for (name, value) in others {
            text_entry(&mut map, name, value, self.form)?;
        }
        map.end()
    }
}

struct Members<'a>(&'a BTreeMap<String, JsonText>, DocumentForm);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            text_entry(&mut map, name, value, self.1)?;
        }
        map.end()
    }
}

impl Serialize for IndexReference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::File(key) => serializer.serialize_str(key),
            Self::Embedded(labels) => labels.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALES: &str = r#"{"dataset_metadata_version":4,"dataset_uuid":"sales","indices":{"item":"sales/indices/item/1.by-dataset-index.parquet","old":{"1":["a","b"]}},"metadata":{"creation_time":"2021-12-10T08:30:00.250000","n":[1,2.50,100000000000000000000]},"partition_keys":["city"],"partitions":{"city=S%C3%A3o/L":{"files":{"table":"sales/table/city=S%C3%A3o/L.parquet"},"rows":7}},"extra":{"x":null}}"#;

    fn parse(text: &str) -> Result<DatasetMetadata> {
        let limits = Limits::default();
        DatasetMetadata::parse(
            text.as_bytes(),
            DocumentForm::Json,
            "sales.json",
            "sales",
            &limits,
        )
    }

    #[test]
    fn every_member_survives_reading_and_writing() {
        let read = parse(SALES).unwrap();
        assert_eq!(read.tables(), ["table"]);
        assert_eq!(read.creation_time().unwrap(), "2021-12-10T08:30:00.250000");
        let written = read.to_bytes(DocumentForm::Json).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), SALES);

        let mut small = read.clone();
        small.user.remove("n");
        let packed = small.to_bytes(DocumentForm::MessagePack).unwrap();
        let limits = Limits::default();
        let again =
            DatasetMetadata::parse(&packed, DocumentForm::MessagePack, "p", "sales", &limits);
        assert_eq!(again.unwrap(), small);
        // An integer of 67 bits has no place in MessagePack, and is not rounded.
        let error = read.to_bytes(DocumentForm::MessagePack).unwrap_err();
        assert!(
            error.to_string().contains("100000000000000000000"),
            "{error}"
        );
    }

    #[test]
    fn missing_members_are_tolerated_and_wrong_ones_refused() {
        let head = r#""dataset_metadata_version":4,"dataset_uuid":"sales""#;
        let bare = parse(&format!("{{{head}}}")).unwrap();
        assert_eq!((bare.partitions, bare.partition_keys), (None, None));
        parse(&format!(r#"{{{head},"partition_keys":null}}"#)).unwrap();
        for (text, kind, word) in [
            (
                r#"{"dataset_metadata_version":3,"dataset_uuid":"sales"}"#,
                "unsupported",
                "version 3",
            ),
            (
                r#"{"dataset_metadata_version":5,"dataset_uuid":"sales"}"#,
                "unsupported",
                "newer",
            ),
            (
                r#"{"dataset_metadata_version":"4","dataset_uuid":"sales"}"#,
                "corrupt",
                "no integer",
            ),
            (
                r#"{"dataset_uuid":"sales"}"#,
                "corrupt",
                "dataset_metadata_version",
            ),
            (
                r#"{"dataset_metadata_version":4}"#,
                "corrupt",
                "dataset_uuid",
            ),
            (
                r#"{"dataset_metadata_version":4,"dataset_uuid":"other"}"#,
                "corrupt",
                "other",
            ),
            ("[]", "corrupt", "map"),
            ("", "corrupt", "EOF"),
            ("{\"dataset_metadata_version\":4,", "corrupt", "EOF"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), kind, "{text}: {error}");
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
        for member in [
            r#""metadata":null"#,
            r#""indices":null"#,
            r#""indices":{"a":1}"#,
            r#""partitions":{"a":{"files":{"t":1}}}"#,
            r#""partitions":[]"#,
            r#""partition_keys":"a""#,
        ] {
            let error = parse(&format!("{{{head},{member}}}")).unwrap_err();
            assert_eq!(error.kind(), "corrupt", "{member}");
        }
    }

    #[test]
    fn documents_beyond_the_limits_are_refused() {
        let metadata = parse(SALES).unwrap();
        let limits = Limits {
            document_bytes: 100,
            ..Limits::default()
        };
        let read = |bytes: &[u8], form| DatasetMetadata::parse(bytes, form, "p", "sales", &limits);
        let mut small = metadata;
        small.user.clear();
        for form in [DocumentForm::Json, DocumentForm::MessagePack] {
            let bytes = small.to_bytes(form).unwrap();
            assert_eq!(read(&bytes, form).unwrap_err().kind(), "limit");
        }
        // A frame of 4 MiB of zeros that compresses to some bytes.
        let bomb = zstd::bulk::compress(&vec![0_u8; 4 << 20], 19).unwrap();
        assert_eq!(
            read(&bomb, DocumentForm::MessagePack).unwrap_err().kind(),
            "limit"
        );
        let deep = "[".repeat(100_000);
        assert_eq!(parse(&deep).unwrap_err().kind(), "corrupt");
    }
}
