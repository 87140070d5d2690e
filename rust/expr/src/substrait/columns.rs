//! The schema of a message, to which column references refer by number.

use std::{collections::BTreeMap, vec::IntoIter};

use arrow_schema::{DataType, Field, Schema};

use super::{refuse::PLACE, value};
use crate::{
    error::{Error, Result},
    proto::substrait::{NamedStruct, Type, r#type::Kind},
};

/// The schema. A column of an unknown type gets the null type, so that positions and names stay right.
pub(super) fn schema(told: NamedStruct, types: &BTreeMap<u32, String>) -> Result<Schema> {
    let columns = told.r#struct.unwrap_or_default().types;
    // The specification lists names of struct members inside of lists; pyarrow leaves them out. Try both.
    for inside_lists in [false, true] {
        let mut walk = Walk {
            names: told.names.clone().into_iter(),
            types,
            inside_lists,
        };
        let fields = walk.fields(&columns);
        match (fields, walk.names.next()) {
            (Some(fields), None) => return Ok(Schema::new(fields)),
            _ => continue,
        }
    }
    Err(Error::invalid(
        PLACE,
        "it has not as many names as its columns have fields",
    ))
}

struct Walk<'a> {
    names: IntoIter<String>,
    types: &'a BTreeMap<u32, String>,
    inside_lists: bool,
}

impl Walk<'_> {
    fn fields(&mut self, types: &[Type]) -> Option<Vec<Field>> {
        let mut fields = Vec::new();
        for one in types {
            let name = self.names.next()?;
            fields.push(Field::new(name, self.data_type(Some(one))?, true));
        }
        Some(fields)
    }

    /// The type, with the names inside it taken; none if there are too few.
    fn data_type(&mut self, one: Option<&Type>) -> Option<DataType> {
        match one.and_then(|one| one.kind.as_ref()) {
            Some(Kind::Struct(of)) => Some(DataType::Struct(self.fields(&of.types)?.into())),
            Some(Kind::List(of)) if self.inside_lists => {
                self.data_type(of.r#type.as_deref())?;
                Some(DataType::Null)
            }
            Some(Kind::Map(of)) if self.inside_lists => {
                self.data_type(of.key.as_deref())?;
                self.data_type(of.value.as_deref())?;
                Some(DataType::Null)
            }
            Some(kind) => Some(value::data_type(kind, self.types).unwrap_or(DataType::Null)),
            None => Some(DataType::Null),
        }
    }
}
