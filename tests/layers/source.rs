//! Reads the sources as the compiler does: finds all files, the names that each file uses, and the files that define
//! these names.
//!
//! Test code is left out: items under `#[cfg(test)]`, and files that only such items declare.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Attribute, Item, UseTree, Visibility};

/// The path of a module: its crate, then the names of the modules.
type Module = Vec<String>;

/// A file and its contents.
#[derive(Default)]
pub struct File {
    pub text: String,
    /// All tokens outside test code, in order.
    pub tokens: Vec<String>,
    /// The paths that lead to another crate, such as `mlua::ffi::lua_State`.
    pub foreign: BTreeSet<String>,
    /// The files that this file imports.
    pub imports: BTreeSet<String>,
    /// The files of the modules that this file declares with `#[allow(unsafe_code)]`.
    pub allows_unsafe: BTreeSet<String>,
    /// The number of lines without test code.
    pub lines: usize,
    /// The number of these lines that are neither blank nor a comment.
    pub code_lines: usize,
}

/// A module, or a block of items in a file.
#[derive(Default)]
struct Scope {
    file: String,
    /// The paths of the names that `use` declares.
    names: BTreeMap<String, Vec<String>>,
    /// The paths that the scope uses, and whether each path is only re-exported.
    paths: Vec<(Vec<String>, bool)>,
}

/// All files below `src/`, by their paths.
pub struct Sources<'s> {
    texts: &'s BTreeMap<String, String>,
    pub files: BTreeMap<String, File>,
    scopes: BTreeMap<Module, Scope>,
    /// The files of the macros that the library exports.
    macros: BTreeMap<String, String>,
}

impl<'s> Sources<'s> {
    /// Reads the files that the roots `src/lib.rs` and `src/main.rs` declare.
    pub fn read(texts: &'s BTreeMap<String, String>) -> Sources<'s> {
        let mut sources = Sources { texts, files: BTreeMap::new(), scopes: BTreeMap::new(), macros: BTreeMap::new() };
        for (root, name) in [("src/lib.rs", "lio"), ("src/main.rs", "main")] {
            if texts.contains_key(root) {
                sources.read_file(root, vec![name.into()]);
            }
        }
        sources.find_imports();
        sources
    }

    fn read_file(&mut self, path: &str, module: Module) {
        let Some(text) = self.texts.get(path) else {
            panic!("no file {path} for the module {}", module.join("::"));
        };
        let code = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let shipped = before_tests(text);
        let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
        let code_lines = shipped.iter().map(|line| line.trim()).filter(is_code).count();
        let file = File { text: text.clone(), lines: shipped.len(), code_lines, ..File::default() };
        self.files.insert(path.into(), file);
        for attribute in &code.attrs {
            self.scan(path, &module, attribute.to_token_stream());
        }
        self.read_items(path, module, &code.items);
    }

    fn read_items(&mut self, path: &str, module: Module, items: &[Item]) {
        let scope = self.scopes.entry(module.clone()).or_default();
        scope.file = path.into();
        for item in items {
            match item {
                Item::Mod(one) if !is_test(&one.attrs) => {
                    let mut inner = module.clone();
                    inner.push(one.ident.to_string());
                    if let Some((_, items)) = &one.content {
                        self.read_items(path, inner, items);
                        continue;
                    }
                    let file = self.file_of(path, &one.ident.to_string(), &one.attrs);
                    let allows = one.attrs.iter().any(|attribute| {
                        let text = attribute.to_token_stream().to_string();
                        text.contains("allow") && text.contains("unsafe_code")
                    });
                    if allows {
                        let owner = self.files.get_mut(path).expect("is read");
                        owner.allows_unsafe.insert(file.clone());
                    }
                    self.read_file(&file, inner);
                }
                Item::Use(one) if !is_test(&one.attrs) => {
                    let passed_on = !matches!(one.vis, Visibility::Inherited);
                    let mut leaves = Vec::new();
                    flatten(&one.tree, &mut Vec::new(), &mut leaves);
                    let scope = self.scopes.get_mut(&module).expect("is made");
                    for (name, path) in leaves {
                        scope.names.insert(name, path.clone());
                        scope.paths.push((path, passed_on));
                    }
                }
                Item::Macro(one) if one.attrs.iter().any(is_export) => {
                    let name = one.ident.as_ref().expect("a macro's name").to_string();
                    self.macros.insert(name, path.into());
                    self.scan(path, &module, one.to_token_stream());
                }
                item if !is_test(attributes(item)) => {
                    self.scan(path, &module, item.to_token_stream());
                }
                _ => {}
            }
        }
    }

    /// Collects the tokens, and the paths among them.
    fn scan(&mut self, path: &str, module: &Module, tokens: TokenStream) {
        let mut flat = Vec::new();
        flatten_tokens(tokens, &mut flat);
        let mut index = 0;
        while index < flat.len() {
            let before = index.checked_sub(1).map_or("", |index| flat[index].as_str());
            let mut names = vec![flat[index].clone()];
            index += 1;
            if !is_name(&names[0]) || matches!(before, "." | "'") || WORDS.contains(&names[0].as_str()) {
                continue;
            }
            while index + 2 < flat.len() && flat[index] == ":" && flat[index + 1] == ":" && is_name(&flat[index + 2]) {
                names.push(flat[index + 2].clone());
                index += 3;
            }
            if names.len() > 1 {
                let scope = self.scopes.get_mut(module).expect("is made");
                scope.paths.push((names, false));
            }
        }
        let file = self.files.get_mut(path).expect("is read");
        file.tokens.extend(flat);
    }

    /// Returns the file of the module `name` that the file at `path` declares.
    fn file_of(&self, path: &str, name: &str, attributes: &[Attribute]) -> String {
        let (folder, stem) = path.rsplit_once('/').expect("below src");
        for attribute in attributes {
            if attribute.path().is_ident("path") {
                let text = attribute.to_token_stream().to_string();
                let file = text.split('"').nth(1).expect("a file's name");
                return format!("{folder}/{file}");
            }
        }
        let folder = match stem {
            "mod.rs" | "lib.rs" | "main.rs" => folder.to_string(),
            stem => format!("{folder}/{}", stem.trim_end_matches(".rs")),
        };
        let plain = format!("{folder}/{name}.rs");
        match self.texts.contains_key(&plain) {
            true => plain,
            false => format!("{folder}/{name}/mod.rs"),
        }
    }

    fn find_imports(&mut self) {
        for (module, scope) in &self.scopes {
            for (path, passed_on) in &scope.paths {
                let found = self.resolve(module, path, 0);
                let file = self.files.get_mut(&scope.file).expect("is read");
                match found {
                    // A module that re-exports items of its submodules imports nothing.
                    Some((_, true)) if *passed_on => {}
                    Some((target, _)) if target != scope.file => {
                        file.imports.insert(target);
                    }
                    Some(_) => {}
                    None => {
                        file.foreign.insert(path.join("::"));
                    }
                }
            }
        }
    }

    /// Returns the file that defines `path`, which `module` uses, and whether it is below `module`; `None` if `path`
    /// leads to another crate.
    fn resolve(&self, module: &Module, path: &[String], depth: usize) -> Option<(String, bool)> {
        let found = self.module_of(module, path, depth)?;
        let below = found.1.len() > module.len() && found.1.starts_with(module);
        Some((found.0, below))
    }

    /// Returns the file and the module that `path` leads to. Follows re-exports.
    fn module_of(&self, from: &Module, path: &[String], depth: usize) -> Option<(String, Module)> {
        if depth > 16 {
            return None;
        }
        let mut at = from.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => at.truncate(1),
            "lio" => at = vec!["lio".into()],
            "self" => {}
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
                rest = &path[path.len() - rest.len() - 1..];
            }
            name => {
                let scope = self.scopes.get(from)?;
                if let Some(target) = scope.names.get(name).filter(|target| target[0] != *name) {
                    let whole: Vec<_> = target.iter().chain(&path[1..]).cloned().collect();
                    return self.module_of(from, &whole, depth + 1);
                }
                at.push(name.into());
                self.scopes.get(&at)?;
            }
        }
        rest = &rest[1..];
        while let Some((name, more)) = rest.split_first() {
            let mut child = at.clone();
            child.push(name.clone());
            let scope = self.scopes.get(&at)?;
            if self.scopes.contains_key(&child) {
                at = child;
                rest = more;
            } else if let Some(target) = scope.names.get(name) {
                let whole: Vec<_> = target.iter().chain(more).cloned().collect();
                return self.module_of(&at, &whole, depth + 1);
            } else if let (1, Some(file)) = (at.len(), self.macros.get(name)) {
                return Some((file.clone(), at));
            } else {
                break;
            }
        }
        Some((self.scopes.get(&at)?.file.clone(), at))
    }
}

/// Returns the lines before the tests at the end of a file.
fn before_tests(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    let tests = lines
        .windows(2)
        .position(|pair| pair[0].starts_with("#[cfg(test)]") && pair[1].starts_with("mod ") && pair[1].ends_with('{'));
    lines.truncate(tests.unwrap_or(lines.len()));
    lines
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && {
            let text = attribute.to_token_stream().to_string();
            let text: String = text.split_whitespace().collect();
            let test_only = ["(test)", "all(test,", "any(test,feature=\"fuzzing\")"];
            test_only.iter().any(|cfg| text.contains(cfg))
        }
    })
}

fn is_export(attribute: &Attribute) -> bool {
    attribute.path().is_ident("macro_export")
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(one) => &one.attrs,
        Item::Enum(one) => &one.attrs,
        Item::Fn(one) => &one.attrs,
        Item::ForeignMod(one) => &one.attrs,
        Item::Impl(one) => &one.attrs,
        Item::Macro(one) => &one.attrs,
        Item::Mod(one) => &one.attrs,
        Item::Static(one) => &one.attrs,
        Item::Struct(one) => &one.attrs,
        Item::Trait(one) => &one.attrs,
        Item::Type(one) => &one.attrs,
        Item::Union(one) => &one.attrs,
        Item::Use(one) => &one.attrs,
        _ => &[],
    }
}

/// Collects the leaves of a `use`: the name in this file, and the path. A `*` gets no usable name.
fn flatten(tree: &UseTree, path: &mut Vec<String>, leaves: &mut Vec<(String, Vec<String>)>) {
    match tree {
        UseTree::Path(one) => {
            path.push(one.ident.to_string());
            flatten(&one.tree, path, leaves);
            path.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, path, leaves);
            }
        }
        UseTree::Glob(_) => leaves.push(("*".into(), path.clone())),
        UseTree::Name(one) if one.ident == "self" => {
            leaves.push((path.last().cloned().unwrap_or_default(), path.clone()));
        }
        UseTree::Name(one) => {
            let name = one.ident.to_string();
            let whole = path.iter().cloned().chain([name.clone()]).collect();
            leaves.push((name, whole));
        }
        UseTree::Rename(one) => {
            let whole = path.iter().cloned().chain([one.ident.to_string()]);
            let whole = whole.filter(|name| name != "self").collect();
            leaves.push((one.rename.to_string(), whole));
        }
    }
}

fn flatten_tokens(tokens: TokenStream, flat: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                flat.push("(".into());
                flatten_tokens(group.stream(), flat);
                flat.push(")".into());
            }
            TokenTree::Literal(_) => flat.push("\"".into()),
            other => flat.push(other.to_string()),
        }
    }
}

/// Keywords that may precede a path that begins with `::`.
const WORDS: &[&str] = &[
    "as", "const", "dyn", "else", "fn", "for", "if", "impl", "in", "let", "match", "mut", "ref", "return", "unsafe",
    "where",
];

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first == '_' || first.is_alphabetic())
}
