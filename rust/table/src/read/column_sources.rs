//! Which files of a fragment hold which columns, and which fields are read of each file.

use arrow_schema::DataType;
use pilum_format::{DataFile, Field, Schema};

/// The files that hold the columns of a schema, and how the columns are put together from them.
#[derive(Debug)]
pub(super) struct Sources {
    /// Indices of the files to open.
    pub(super) files: Vec<usize>,
    /// Fields to read of each of these files, in the order in which `columns` consume them.
    pub(super) wanted: Vec<Vec<Field>>,
    /// One per column of the schema.
    pub(super) columns: Vec<Source>,
}

/// Where a column comes from.
#[derive(Debug)]
pub(super) enum Source {
    /// The next array read from this file.
    File(usize),
    /// No file has it: every value is null.
    Missing(Field),
    /// A struct whose members lie in several files; its own nulls come from a struct array of the first.
    Split {
        field: Field,
        nulls: Option<usize>,
        members: Vec<Source>,
    },
}

/// Finds the columns of `schema` in the files of a fragment. Where two files name a field, the first one holds it.
pub(super) fn sources(data_files: &[DataFile], schema: &Schema) -> Sources {
    let mut chosen = Chosen {
        data_files,
        files: Vec::new(),
        wanted: Vec::new(),
    };
    let fields = schema.fields.iter();
    let columns = fields.map(|field| chosen.resolve(field)).collect();
    Sources {
        files: chosen.files,
        wanted: chosen.wanted,
        columns,
    }
}

/// Files chosen so far and the fields to read of each.
struct Chosen<'a> {
    data_files: &'a [DataFile],
    /// Indices into `data_files`.
    files: Vec<usize>,
    wanted: Vec<Vec<Field>>,
}

impl Chosen<'_> {
    /// The first file whose ids name the field.
    fn file_of(&self, id: i32) -> Option<usize> {
        self.data_files
            .iter()
            .position(|file| file.field_ids.contains(&id))
    }

    /// The one file that holds a node and everything below it.
    fn single_file(&self, field: &Field) -> Option<usize> {
        let file = self.file_of(field.id)?;
        match &field.data_type {
            DataType::Struct(_) => field
                .children
                .iter()
                .all(|child| self.single_file(child) == Some(file))
                .then_some(file),
            _ => Some(file),
        }
    }

    /// A struct down to one column below it that `file` holds: reading that column tells which structs are null.
    fn null_carrier(&self, field: &Field, file: usize) -> Option<Field> {
        if !self.data_files[file].field_ids.contains(&field.id) {
            return None;
        }
        if !matches!(field.data_type, DataType::Struct(_)) {
            return (self.file_of(field.id) == Some(file)).then(|| field.clone());
        }
        let mut members = field.children.iter();
        let member = members.find_map(|child| self.null_carrier(child, file))?;
        Some(field.with_children(vec![member]))
    }

    /// Adds a field to those that are read of a file; returns the place of the file among the chosen ones.
    fn want(&mut self, file: usize, field: Field) -> usize {
        let place = self
            .files
            .iter()
            .position(|&known| known == file)
            .unwrap_or_else(|| {
                self.files.push(file);
                self.wanted.push(Vec::new());
                self.files.len() - 1
            });
        self.wanted[place].push(field);
        place
    }

    /// Decides where a field comes from.
    fn resolve(&mut self, field: &Field) -> Source {
        if let Some(file) = self.single_file(field) {
            return Source::File(self.want(file, field.clone()));
        }
        if !matches!(field.data_type, DataType::Struct(_))
            || field.walk().all(|node| self.file_of(node.id).is_none())
        {
            return Source::Missing(field.clone());
        }
        let nulls = (0..self.data_files.len())
            .find_map(|file| Some((file, self.null_carrier(field, file)?)))
            .map(|(file, null_carrier)| self.want(file, null_carrier));
        let members = field
            .children
            .iter()
            .map(|child| self.resolve(child))
            .collect();
        Source::Split {
            field: field.clone(),
            nulls,
            members,
        }
    }
}
