//! The modules of a crate and the paths between them, read from its sources. Tests inside a crate are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

/// One module, in its own file or inside that of another.
pub(crate) struct Module {
    /// Its path below the root, joined by `::`; empty for the root.
    pub(crate) name: String,
    /// Paths that its code names: `crate::a::b`, `super::c`, `child::d`.
    paths: Vec<Vec<String>>,
    /// Names that it gives on from elsewhere (`pub use`), and where they come from.
    given_on: BTreeMap<String, Vec<String>>,
}

/// The modules of the library at `root`, its `lib.rs`.
pub(crate) fn modules_of(root: &Path) -> Vec<Module> {
    let mut modules = Vec::new();
    let folder = root.parent().unwrap().to_owned();
    read(root, &folder, "", &mut modules);
    modules
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        if path.is_ident("test") {
            return true;
        }
        let syn::Meta::List(list) = &attribute.meta else {
            return false;
        };
        path.is_ident("cfg") && list.tokens.to_string() == "test"
    })
}

fn read(file: &Path, folder: &Path, name: &str, modules: &mut Vec<Module>) {
    let text =
        std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let parsed =
        syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    items(&parsed.items, folder, name, modules);
}

fn items(items: &[Item], folder: &Path, name: &str, modules: &mut Vec<Module>) {
    let mut found = Paths::default();
    let mut below = Vec::new();
    for item in items {
        match item {
            Item::Mod(module) if is_test(&module.attrs) => {}
            Item::Mod(module) => below.push(module),
            Item::Use(import) if is_test(&import.attrs) => {}
            Item::Use(import) => {
                let is_given_on = !matches!(import.vis, Visibility::Inherited);
                found.import(&import.tree, &mut Vec::new(), is_given_on);
            }
            other => found.visit_item(other),
        }
    }
    modules.push(Module {
        name: name.to_owned(),
        paths: found.paths,
        given_on: found.given_on,
    });
    for module in below {
        let ident = module.ident.to_string();
        let child = match name {
            "" => ident.clone(),
            name => format!("{name}::{ident}"),
        };
        match &module.content {
            Some((_, content)) => self::items(content, &folder.join(&ident), &child, modules),
            None => {
                let file = file_of(&module.attrs, folder, &ident);
                read(&file, &folder.join(&ident), &child, modules);
            }
        }
    }
}

fn file_of(attributes: &[Attribute], folder: &Path, ident: &str) -> PathBuf {
    for attribute in attributes {
        if attribute.path().is_ident("path")
            && let syn::Meta::NameValue(value) = &attribute.meta
            && let syn::Expr::Lit(literal) = &value.value
            && let syn::Lit::Str(path) = &literal.lit
        {
            return folder.join(path.value());
        }
    }
    let flat = folder.join(format!("{ident}.rs"));
    match flat.exists() {
        true => flat,
        false => folder.join(ident).join("mod.rs"),
    }
}

#[derive(Default)]
struct Paths {
    paths: Vec<Vec<String>>,
    given_on: BTreeMap<String, Vec<String>>,
}

impl Paths {
    fn import(&mut self, tree: &UseTree, before: &mut Vec<String>, is_given_on: bool) {
        let mut leaf = |path: Vec<String>, name: String| {
            if is_given_on {
                self.given_on.insert(name, path);
            } else {
                self.paths.push(path);
            }
        };
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before, is_given_on);
                before.pop();
            }
            UseTree::Name(name) if name.ident == "self" => {
                leaf(before.clone(), before.last().cloned().unwrap_or_default());
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                let path = [before.as_slice(), std::slice::from_ref(&name)].concat();
                leaf(path, name);
            }
            UseTree::Rename(rename) => {
                let path = [before.as_slice(), &[rename.ident.to_string()]].concat();
                leaf(path, rename.rename.to_string());
            }
            UseTree::Glob(_) => leaf(before.clone(), "*".to_owned()),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before, is_given_on);
                }
            }
        }
    }
}

impl<'a> Visit<'a> for Paths {
    fn visit_path(&mut self, path: &'a syn::Path) {
        let segments = path.segments.iter().map(|it| it.ident.to_string());
        self.paths.push(segments.collect());
        visit::visit_path(self, path);
    }

    /// `pub(crate)` and `pub(super)` name modules but do not use them.
    fn visit_visibility(&mut self, _: &'a Visibility) {}

    fn visit_item_use(&mut self, import: &'a syn::ItemUse) {
        self.import(&import.tree, &mut Vec::new(), false);
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    /// The words of a macro are not parsed: its paths are found by their tokens.
    fn visit_macro(&mut self, called: &'a syn::Macro) {
        let text = called.tokens.to_string();
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_name = |word: &str| word.chars().all(|c| c.is_alphanumeric() || c == '_');
        for (at, word) in words.iter().enumerate() {
            if *word == "crate" || *word == "super" {
                let mut path = vec![(*word).to_owned()];
                let mut rest = words[at + 1..].chunks_exact(2);
                while let Some([colons, name]) = rest.next() {
                    if *colons != "::" || !is_name(name) {
                        break;
                    }
                    path.push((*name).to_owned());
                }
                self.paths.push(path);
            }
        }
        visit::visit_macro(self, called);
    }
}

/// By module the modules that it uses. A module that gives on names of the modules below it does not use them: who takes
/// such a name uses the module that it comes from.
pub(crate) fn edges_of(modules: &[Module]) -> BTreeMap<String, BTreeSet<String>> {
    let by_name: BTreeMap<&str, &Module> = modules
        .iter()
        .map(|module| (module.name.as_str(), module))
        .collect();
    modules
        .iter()
        .map(|module| {
            let given_on = module.given_on.values();
            let is_own = |path: &&Vec<String>| {
                let below = format!("{}::", module.name);
                target(&by_name, &module.name, path)
                    .is_some_and(|it| module.name.is_empty() || it.starts_with(&below))
            };
            let elsewhere = given_on.filter(|path| !is_own(path));
            // A name that is given on may be used here as well.
            let used = module.paths.iter();
            let used_here = used.filter_map(|path| module.given_on.get(path.first()?));
            let paths = module.paths.iter().chain(elsewhere).chain(used_here);
            let uses = paths.filter_map(|path| target(&by_name, &module.name, path));
            let uses = uses.filter(|it| *it != module.name);
            (module.name.clone(), uses.collect())
        })
        .collect()
}

/// The module that a path leads to, as `from` writes it; `None` outside of the crate.
fn target(modules: &BTreeMap<&str, &Module>, from: &str, path: &[String]) -> Option<String> {
    let (at, rest) = start(modules, from, path)?;
    resolve(modules, at, rest, 0)
}

/// The module that a path starts from, and the rest of the path.
fn start<'a>(
    modules: &BTreeMap<&str, &Module>,
    from: &str,
    path: &'a [String],
) -> Option<(Vec<String>, &'a [String])> {
    let mut at: Vec<String> = match from {
        "" => Vec::new(),
        from => from.split("::").map(str::to_owned).collect(),
    };
    let mut rest = path;
    match rest.first().map(String::as_str)? {
        "crate" => {
            at.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|it| it == "super") {
                at.pop();
                rest = &rest[1..];
            }
        }
        first => {
            // Without a start, only a module below counts: other names are of the prelude, or imported. A name alone is
            // no module.
            let child = [at.as_slice(), &[first.to_owned()]].concat().join("::");
            modules.get(child.as_str()).filter(|_| rest.len() > 1)?;
        }
    }
    Some((at, rest))
}

fn resolve(
    modules: &BTreeMap<&str, &Module>,
    mut at: Vec<String>,
    rest: &[String],
    depth: usize,
) -> Option<String> {
    let mut rest = rest;
    while let Some(next) = rest.first() {
        let child = [at.as_slice(), std::slice::from_ref(next)].concat();
        if !modules.contains_key(child.join("::").as_str()) {
            break;
        }
        at = child;
        rest = &rest[1..];
    }
    let module = modules.get(at.join("::").as_str())?;
    // A name that the module only gives on belongs to the module that it comes from.
    if let Some(name) = rest.first()
        && let Some(source) = module.given_on.get(name)
        && depth < 8
        && let Some((at, rest)) = start(modules, &module.name, source)
        && let Some(found) = resolve(modules, at, rest, depth + 1)
    {
        return Some(found);
    }
    Some(module.name.clone())
}
