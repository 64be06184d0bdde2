//! The import graph of a crate, read from its text by the parser that procedural macros use.
//!
//! A node is a file. A file with child modules, such as `cuda/mod.rs`, often declares what its
//! children use, and uses its children too. That is a circle only if one item does both. Each item
//! of such a file, with its `impl` blocks, is therefore a node of its own. A re-export is no node:
//! whoever imports it depends on the file that declares the item. Unit tests are left out.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Item, Type, UseTree};

/// The names of a path: `["crate", "device", "cuda", "gate", "Gate"]`.
pub type Names = Vec<String>;

/// For each node, the nodes that it uses, each with the path that it uses it by.
pub type Graph = BTreeMap<String, BTreeMap<String, String>>;

/// The modules of a crate.
#[derive(Default)]
pub struct Tree {
    modules: BTreeMap<Names, Module>,
}

#[derive(Default)]
struct Module {
    file: String,
    /// Whether the module has children in files of their own.
    has_children: bool,
    /// What `use` brings into the module: the name here, and the path as written.
    imports: BTreeMap<String, Names>,
    /// Paths that `use` takes everything from, with their `*`.
    globs: Vec<Names>,
    /// The paths that each declared item mentions, as written. The empty name stands for code that
    /// declares no item of this module, such as an `impl` for another module's type.
    items: BTreeMap<String, Vec<Names>>,
}

impl Tree {
    /// Reads the files of one crate, each with its path, such as `src/session/mod.rs` or
    /// `crates/domain/src/units.rs`, and its text.
    ///
    /// # Panics
    /// If a file is not Rust.
    pub fn of<'f>(files: impl IntoIterator<Item = (&'f str, &'f str)>) -> Tree {
        let mut tree = Tree::default();
        let mut for_tests = Vec::new();
        for (file, text) in files {
            let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
            tree.read(file, module_of(file), parsed.items, &mut for_tests);
        }
        tree.modules.retain(|path, _| !for_tests.iter().any(|test| path.starts_with(test)));
        let files = tree.modules.iter().map(|(path, module)| (path.clone(), module.file.clone()));
        for (path, file) in files.collect::<Vec<_>>() {
            for above in (1..path.len()).map(|length| &path[..length]) {
                if let Some(parent) = tree.modules.get_mut(above) {
                    parent.has_children |= parent.file != file;
                }
            }
        }
        tree
    }

    fn read(&mut self, file: &str, path: Names, items: Vec<Item>, for_tests: &mut Vec<Names>) {
        let mut module = Module { file: file.into(), ..Module::default() };
        let mut impls = Vec::new();
        for item in items {
            let is_for_tests = is_for_tests(&item);
            match item {
                Item::Mod(child) => {
                    let inner = [path.as_slice(), &[child.ident.to_string()]].concat();
                    if is_for_tests {
                        for_tests.push(inner);
                    } else if let Some((_, items)) = child.content {
                        self.read(file, inner, items, for_tests);
                    }
                }
                _ if is_for_tests => {}
                Item::Use(item) => module.import(&item.tree, &[]),
                Item::Impl(item) => impls.push((type_name(&item.self_ty), mentions(&item))),
                item => {
                    let name = declared_name(&item).unwrap_or_default();
                    module.items.entry(name).or_default().extend(mentions(&item));
                }
            }
        }
        module.items.entry(String::new()).or_default();
        for (name, mentions) in impls {
            let owner = name.filter(|name| module.items.contains_key(name)).unwrap_or_default();
            module.items.entry(owner).or_default().extend(mentions);
        }
        self.modules.insert(path, module);
    }

    /// Every file with the full path of everything that it uses. A path of this crate begins with
    /// `crate`, any other with the name of its crate, such as `std`.
    pub fn uses(&self) -> BTreeSet<(&str, Names)> {
        let mut uses = BTreeSet::new();
        for (path, module) in &self.modules {
            let mentions = module.items.values().flatten().chain(module.written());
            let full = mentions.filter_map(|mention| self.full(path, mention));
            uses.extend(full.map(|used| (module.file.as_str(), used)));
        }
        uses
    }

    /// The graph of a folder's files, such as `crates/device/src/gpu`.
    pub fn graph(&self, folder: &str) -> Graph {
        let module = module_of(folder);
        let is_below = |path: &Names| path.starts_with(&module);
        let mut graph = Graph::new();
        for (path, module) in self.modules.iter().filter(|(path, _)| is_below(path)) {
            for (item, mentions) in &module.items {
                let node = self.node(path, item);
                let used = graph.entry(node.clone()).or_default();
                let imports = module.written().filter(|_| !module.has_children);
                let full = mentions.iter().chain(imports).filter_map(|one| self.full(path, one));
                for name in full.filter(is_below) {
                    for target in self.declared_at(&name).into_iter().filter(|at| *at != node) {
                        used.entry(target).or_insert_with(|| name.join("::"));
                    }
                }
            }
        }
        graph
    }

    /// The full path of what a module mentions; none for a name that no `use` brings and no item
    /// has, such as that of a variable.
    fn full(&self, module: &[String], mention: &[String]) -> Option<Names> {
        let (first, rest) = mention.split_first()?;
        let parent = |module: &[String]| Some(module.split_last()?.1.to_vec());
        let here = self.modules.get(module)?;
        let start = match first.as_str() {
            "crate" => vec!["crate".to_owned()],
            "self" | "super" if rest.is_empty() => return None,
            "self" => module.to_vec(),
            "super" => {
                let mut at = parent(module)?;
                let ups = rest.iter().take_while(|name| *name == "super").count();
                for _ in 0..ups {
                    at = parent(&at)?;
                }
                return Some([at.as_slice(), &rest[ups..]].concat());
            }
            name => {
                let own = [module, &[name.to_owned()]].concat();
                let is_child = self.modules.contains_key(&own) && !rest.is_empty();
                match here.imports.get(name) {
                    // Not `use gate::gate`, whose first name is a module's or a crate's.
                    Some(path) if path.first() != Some(first) => self.full(module, path)?,
                    Some(path) if rest.is_empty() && path != mention => self.full(module, path)?,
                    _ if is_child || here.items.contains_key(name) => own,
                    None if rest.is_empty() => return None,
                    _ => vec![name.to_owned()],
                }
            }
        };
        Some([start.as_slice(), rest].concat())
    }

    /// The nodes that declare what a full path names. A path that ends at a module with children
    /// names none of its items.
    fn declared_at(&self, full: &[String]) -> Vec<String> {
        let length = (1..=full.len()).rev().find(|&end| self.modules.contains_key(&full[..end]));
        let Some((path, rest)) = length.map(|end| full.split_at(end)) else { return Vec::new() };
        let module = &self.modules[path];
        if !module.has_children {
            return vec![module.file.clone()];
        }
        let Some((name, rest)) = rest.split_first() else { return Vec::new() };
        if name == "*" {
            return module.items.keys().map(|item| self.node(path, item)).collect();
        }
        if module.items.contains_key(name) {
            return vec![self.node(path, name)];
        }
        let through = |import: &[String]| Some([&*self.full(path, import)?, rest].concat());
        if let Some(full) = module.imports.get(name).and_then(|import| through(import)) {
            return self.declared_at(&full);
        }
        let from_globs = module.globs.iter().filter_map(|glob| {
            // With its `*`: a name alone may be that of anything.
            let mut of = self.full(path, glob)?;
            of.pop();
            let other = self.modules.get(&of)?;
            let has_it = other.items.contains_key(name) || other.imports.contains_key(name);
            has_it.then(|| self.declared_at(&[of.as_slice(), std::slice::from_ref(name)].concat()))
        });
        from_globs.flatten().next().map_or_else(|| vec![self.node(path, "")], |node| vec![node])
    }

    fn node(&self, path: &[String], item: &str) -> String {
        let Module { file, has_children, .. } = &self.modules[path];
        match (has_children, item) {
            (false, _) => file.clone(),
            (true, "") => format!("{file}: code of no item"),
            (true, item) => format!("{file}: {item}"),
        }
    }
}

impl Module {
    fn import(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        let mut names = |name: &syn::Ident, path: Names| match path.split_last() {
            Some((last, path)) if last == "self" => {
                let alias = if name == "self" { path.last().cloned() } else { None };
                self.imports.insert(alias.unwrap_or(name.to_string()), path.to_vec());
            }
            _ => drop(self.imports.insert(name.to_string(), path)),
        };
        match tree {
            UseTree::Path(tree) => self.import(&tree.tree, &with(&tree.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|one| self.import(one, before)),
            UseTree::Name(tree) => names(&tree.ident, with(&tree.ident)),
            UseTree::Rename(tree) => names(&tree.rename, with(&tree.ident)),
            UseTree::Glob(_) => self.globs.push([before, &["*".to_owned()]].concat()),
        }
    }

    /// Every path of a `use`.
    fn written(&self) -> impl Iterator<Item = &Names> {
        self.imports.values().chain(&self.globs)
    }
}

/// Each set of nodes, in more than one file, that use each other, with all uses among them.
pub fn circles(graph: &Graph) -> Vec<String> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|node| (node.as_str(), reached(graph, node))).collect();
    let mut found = BTreeSet::new();
    for (node, reached) in &reach {
        let members: BTreeSet<&str> =
            reached.iter().filter(|other| reach[*other].contains(node)).copied().collect();
        let files: BTreeSet<_> = members.iter().map(|one| one.split(": ").next()).collect();
        if files.len() > 1 {
            let uses = members.iter().flat_map(|user| {
                let used = graph[*user].iter().filter(|(used, _)| members.contains(used.as_str()));
                used.map(move |(_, path)| format!("\n    {user} uses {path}"))
            });
            let uses: String = uses.collect();
            found.insert(format!("{} in a circle:{uses}", members.len()));
        }
    }
    found.into_iter().collect()
}

/// What a node uses, and what that uses, and so on.
fn reached<'g>(graph: &'g Graph, node: &'g str) -> BTreeSet<&'g str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![node];
    while let Some(node) = next.pop() {
        let used = graph.get(node).into_iter().flat_map(BTreeMap::keys);
        next.extend(used.map(String::as_str).filter(|used| reached.insert(*used)));
    }
    reached
}

/// A graph whose nodes are renamed: those of one name become one.
pub fn fold(graph: &Graph, rename: impl Fn(&str) -> String) -> Graph {
    let mut folded = Graph::new();
    for (node, used) in graph {
        let node = rename(node);
        let of_node = folded.entry(node.clone()).or_default();
        let used = used.iter().map(|(other, path)| (rename(other), path.clone()));
        of_node.extend(used.filter(|(other, _)| *other != node));
    }
    folded
}

/// `crates/device/src/cuda/mod.rs` is the module `crate::cuda` of its crate.
fn module_of(file: &str) -> Names {
    let below_src = file.split_once("src").map_or(file, |(_, below)| below);
    let path = below_src.trim_end_matches(".rs");
    let names = path.split('/').filter(|name| !matches!(*name, "" | "mod" | "lib" | "main"));
    std::iter::once("crate").chain(names).map(str::to_owned).collect()
}

fn is_for_tests(item: &Item) -> bool {
    let attributes = match item {
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let words = attribute.meta.to_token_stream().to_string();
        let mut words = words.split(|c: char| !c.is_alphanumeric());
        // With `not` or `any` it may be compiled without tests too.
        let is_sure = !words.clone().any(|word| word == "not" || word == "any");
        is_sure && words.any(|word| word == "test")
    })
}

fn declared_name(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

/// The name of the type that an `impl` is for, where it is a name without a path.
fn type_name(of: &Type) -> Option<String> {
    match of {
        Type::Path(of) if of.path.segments.len() == 1 => {
            of.path.segments.first().map(|segment| segment.ident.to_string())
        }
        Type::Reference(of) => type_name(&of.elem),
        _ => None,
    }
}

/// Every path in an item, in macros too.
fn mentions(item: &impl ToTokens) -> Vec<Names> {
    let mut found = Vec::new();
    paths(item.to_token_stream(), &[], &mut found);
    found
}

/// Every path in a stream of tokens. `prefix` is what stands before a group of `use`.
fn paths(tokens: TokenStream, prefix: &[String], found: &mut Vec<Names>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is = |at: usize, sign: char| match tokens.get(at) {
        Some(TokenTree::Punct(punct)) => punct.as_char() == sign,
        _ => false,
    };
    let mut path = prefix.to_vec();
    for (at, token) in tokens.iter().enumerate() {
        let goes_on = is(at + 1, ':') && is(at + 2, ':');
        match token {
            TokenTree::Ident(name) => {
                path.push(name.to_string());
                // Neither a field or a method, nor the name that a field or a variable is given.
                let is_field = at > 0 && is(at - 1, '.') && !(at > 1 && is(at - 2, '.'));
                if !goes_on && (path.len() > 1 || !(is_field || is(at + 1, ':'))) {
                    path.pop_if(|last| last == "self");
                    found.push(std::mem::take(&mut path));
                }
            }
            TokenTree::Group(group) => {
                let is_use = !path.is_empty() && group.delimiter() == Delimiter::Brace;
                paths(group.stream(), if is_use { &path } else { &[] }, found);
            }
            TokenTree::Punct(sign) if sign.as_char() == '*' && !path.is_empty() => {
                path.push("*".into());
                found.push(std::mem::take(&mut path));
            }
            // The path goes on, or ends at a turbofish.
            TokenTree::Punct(sign) if sign.as_char() == '<' && !path.is_empty() => {
                found.push(std::mem::take(&mut path));
            }
            _ => {}
        }
        let ends = match token {
            TokenTree::Ident(_) => !goes_on,
            TokenTree::Punct(sign) => sign.as_char() != ':',
            TokenTree::Group(_) | TokenTree::Literal(_) => true,
        };
        if ends {
            path.clear();
        }
        if is(at, ',') {
            path = prefix.to_vec();
        }
    }
}
