//! Reads out of sources which file imports which.

use std::collections::{BTreeMap, BTreeSet};

/// The names that the files of a crate use.
#[derive(Debug, Default)]
pub(crate) struct Imports {
    /// A file, and another one of the crate.
    pub(crate) inside: BTreeSet<(String, String)>,
    /// A file, and a path that leads out of the crate.
    pub(crate) outside: BTreeSet<(String, String)>,
}

/// `files`: their names from `lib.rs` on, and what stands in them.
pub(crate) fn imports(files: &BTreeMap<String, String>) -> Imports {
    let sources = Sources::read(files);
    let mut imports = Imports::default();
    for module in sources.modules.values() {
        for (from, path) in &module.paths {
            match sources.resolve(from, path, 0) {
                Ok(file) if file == module.file => {}
                Ok(file) => drop(imports.inside.insert((module.file.clone(), file))),
                Err(path) => drop(imports.outside.insert((module.file.clone(), path.join("::")))),
            }
        }
    }
    imports
}

/// The tokens of a source without comments: words, texts in quotes, other signs.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let (mut found, mut i) = (Vec::new(), 0);
    while i < chars.len() {
        let c = at(i);
        if c == '/' && at(i + 1) == '/' {
            while i < chars.len() && at(i) != '\n' {
                i += 1;
            }
        } else if c == '/' && at(i + 1) == '*' {
            i += 2;
            while i < chars.len() && !(at(i) == '*' && at(i + 1) == '/') {
                i += 1;
            }
            i += 2;
        } else if c == 'r' && (at(i + 1) == '"' || (at(i + 1) == '#' && at(i + 2) == '"')) {
            let hashes = usize::from(at(i + 1) == '#');
            i += 2 + hashes;
            while i < chars.len() && !(at(i) == '"' && (hashes == 0 || at(i + 1) == '#')) {
                i += 1;
            }
            i += 1 + hashes;
        } else if c == '"' {
            let mut text = String::new();
            i += 1;
            while i < chars.len() && at(i) != '"' {
                if at(i) == '\\' {
                    i += 1;
                }
                text.push(at(i));
                i += 1;
            }
            i += 1;
            found.push(Token::Text(text));
        } else if c == '\'' && (at(i + 1) == '\\' || at(i + 2) == '\'') {
            i += if at(i + 1) == '\\' { 3 } else { 2 };
            while i < chars.len() && at(i) != '\'' {
                i += 1;
            }
            i += 1;
        } else if c.is_alphanumeric() || c == '_' {
            let start = i;
            while at(i).is_alphanumeric() || at(i) == '_' {
                i += 1;
            }
            found.push(Token::Word(chars[start..i].iter().collect()));
        } else {
            if !c.is_whitespace() {
                found.push(Token::Sign(c));
            }
            i += 1;
        }
    }
    found
}

fn is(token: Option<&Token>, sign: char) -> bool {
    token == Some(&Token::Sign(sign))
}

fn word(token: Option<&Token>) -> Option<&str> {
    if let Some(Token::Word(word)) = token { Some(word) } else { None }
}

/// The position behind an item, a statement or a block that begins at `i`.
fn behind(tokens: &[Token], mut i: usize) -> usize {
    let mut depth = 0_i32;
    while i < tokens.len() {
        match tokens[i] {
            Token::Sign('{' | '(' | '[') => depth += 1,
            Token::Sign('}' | ')' | ']') if depth == 0 => return i,
            Token::Sign('}') if depth == 1 => return i + 1 + usize::from(is(tokens.get(i + 1), ';')),
            Token::Sign('}' | ')' | ']') => depth -= 1,
            Token::Sign(';' | ',') if depth == 0 => return i + 1,
            _ => {}
        }
        i += 1;
    }
    i
}

/// Without the parts that are only for tests.
fn production(tokens: &[Token]) -> Vec<Token> {
    let (mut kept, mut i) = (Vec::new(), 0);
    while i < tokens.len() {
        if is(tokens.get(i), '#') && is(tokens.get(i + 1), '[') && word(tokens.get(i + 2)) == Some("cfg") {
            let end = (i..tokens.len()).find(|j| is(tokens.get(*j), ']')).unwrap_or(tokens.len() - 1) + 1;
            let says = |text: &str| tokens[i..end].iter().any(|token| word(Some(token)) == Some(text));
            if says("test") && !says("not") {
                let mut item = end;
                while is(tokens.get(item), '#') {
                    item = (item..tokens.len())
                        .find(|j| is(tokens.get(*j), ']'))
                        .map_or(tokens.len(), |j| j + 1);
                }
                i = behind(tokens, item);
                continue;
            }
        }
        kept.push(tokens[i].clone());
        i += 1;
    }
    kept
}

type Names = Vec<String>;

/// A module: its file, and what its code says.
#[derive(Debug, Default)]
struct Module {
    file: String,
    /// The folder in which it looks for the files of its own modules.
    folder: String,
    /// Every path in the file as it is written, with the module of the file that contains it.
    paths: Vec<(Names, Names)>,
    /// Names that it imports: a name (or `*`), and its path.
    imports: Vec<(String, Names)>,
    defines: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Sources {
    modules: BTreeMap<Names, Module>,
}

impl Sources {
    fn read(files: &BTreeMap<String, String>) -> Sources {
        let mut sources = Sources::default();
        sources.add(files, Vec::new(), "lib.rs".into(), String::new());
        sources
    }

    fn add(&mut self, files: &BTreeMap<String, String>, name: Names, file: String, folder: String) {
        let code = production(&tokens(&files[&file]));
        self.modules.insert(name.clone(), Module { file, folder, ..Module::default() });
        self.scan(files, &name, &code);
    }

    fn scan(&mut self, files: &BTreeMap<String, String>, module: &Names, code: &[Token]) {
        let (mut i, mut path) = (0, None);
        while i < code.len() {
            let next = word(code.get(i + 1)).map(str::to_owned);
            match (word(code.get(i)), next) {
                (Some("mod"), Some(child)) => {
                    let mut inner = module.clone();
                    inner.push(child.clone());
                    let Module { file, folder, .. } = &self.modules[module];
                    let (file, folder) = (file.clone(), folder.clone());
                    if is(code.get(i + 2), '{') {
                        let end = behind(code, i + 2);
                        let folder = format!("{folder}{child}/");
                        self.modules.insert(inner.clone(), Module { file, folder, ..Module::default() });
                        self.scan(files, &inner, &code[i + 3..end - 1]);
                        i = end;
                        continue;
                    }
                    let named: Option<String> = path.take();
                    let beside = named.unwrap_or_else(|| format!("{child}.rs"));
                    let inside = format!("{folder}{child}/mod.rs");
                    let file = if files.contains_key(&inside) { inside } else { format!("{folder}{beside}") };
                    let own = file.strip_suffix("mod.rs").map(str::to_owned);
                    self.add(files, inner, file, own.unwrap_or_else(|| format!("{folder}{child}/")));
                    i += 2;
                }
                (Some("path"), _) if is(code.get(i + 1), '=') => {
                    if let Some(Token::Text(text)) = code.get(i + 2) {
                        path = Some(text.clone());
                    }
                    i += 1;
                }
                (Some("use"), _) => {
                    let end = behind(code, i);
                    let mut flat = Vec::new();
                    tree(&code[i + 1..end], &mut Vec::new(), &mut flat);
                    let here = self.modules.entry(module.clone()).or_default();
                    for (name, target) in flat {
                        here.paths.push((module.clone(), target.clone()));
                        here.imports.push((name, target));
                    }
                    i = end;
                }
                (Some("struct" | "enum" | "fn" | "trait" | "type" | "const" | "static"), Some(name)) => {
                    self.modules.entry(module.clone()).or_default().defines.insert(name);
                    i += 1;
                }
                (Some("macro_rules"), _) => {
                    let name = word(code.get(i + 2)).unwrap_or_default().to_owned();
                    self.modules.entry(module.clone()).or_default().defines.insert(name);
                    i += 2;
                }
                (Some(first), _) if is(code.get(i + 1), ':') && is(code.get(i + 2), ':') => {
                    let mut names = vec![first.to_owned()];
                    while is(code.get(i + 1), ':')
                        && is(code.get(i + 2), ':')
                        && let Some(more) = word(code.get(i + 3))
                    {
                        names.push(more.to_owned());
                        i += 3;
                    }
                    self.modules.entry(module.clone()).or_default().paths.push((module.clone(), names));
                    i += 1;
                }
                _ => i += 1,
            }
        }
    }

    /// The file that a path leads to from a module, or the path itself if it leads out of the crate.
    fn resolve(&self, from: &[String], path: &[String], hops: u32) -> Result<String, Names> {
        let mut at = from.to_vec();
        let mut rest = path;
        match path.first().map(String::as_str) {
            Some("crate") => at.clear(),
            Some("self") => {}
            Some("super") => drop(at.pop()),
            Some(first) => {
                let child = [from, &[first.to_owned()]].concat();
                let imported = |(name, _): &&(String, Names)| name == first;
                let import = self.modules.get(from).and_then(|m| m.imports.iter().find(imported));
                match import {
                    _ if self.modules.contains_key(&child) => at = child,
                    // Only a whole crate or a module is followed further. Types are imported where they are named.
                    Some((_, target)) if hops < 8 && target != path => {
                        let onward = [target.clone(), path[1..].to_vec()].concat();
                        return self.resolve(from, &onward, hops + 1);
                    }
                    _ => return Err(path.to_vec()),
                }
            }
            None => return Err(Vec::new()),
        }
        rest = &rest[1..];
        while let Some(next) = rest.first() {
            if next == "super" {
                at.pop();
            } else {
                let child = [at.as_slice(), std::slice::from_ref(next)].concat();
                if !self.modules.contains_key(&child) {
                    break;
                }
                at = child;
            }
            rest = &rest[1..];
        }
        let module = &self.modules[&at];
        let Some(name) = rest.first().filter(|name| !module.defines.contains(*name) && hops < 8) else {
            return Ok(module.file.clone());
        };
        for (found, target) in &module.imports {
            if found == name {
                return self.resolve(&at, target, hops + 1);
            }
            if found == "*"
                && let Some(glob) = self.module_of(&at, target)
                && (self.modules[&glob].defines.contains(name)
                    || self.modules[&glob].imports.iter().any(|(found, _)| found == name))
            {
                return self.resolve(&glob, &["self".into(), name.clone()], hops + 1);
            }
        }
        Ok(module.file.clone())
    }

    fn module_of(&self, from: &[String], path: &[String]) -> Option<Names> {
        let mut at = from.to_vec();
        for name in path {
            match name.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()),
                name => at.push(name.to_owned()),
            }
        }
        self.modules.contains_key(&at).then_some(at)
    }
}

/// The leaves of a `use`: under which name, and what.
fn tree(code: &[Token], before: &mut Names, found: &mut Vec<(String, Names)>) {
    let (mut i, depth) = (0, before.len());
    while i < code.len() {
        match &code[i] {
            Token::Word(name) if name == "as" => {
                if let (Some(alias), Some(last)) = (word(code.get(i + 1)), found.last_mut()) {
                    last.0 = alias.to_owned();
                }
                i += 2;
            }
            Token::Word(name) => {
                before.push(name.clone());
                if !(is(code.get(i + 1), ':') && is(code.get(i + 2), ':')) {
                    let this = name == "self" && before.len() > 1;
                    let target = before[..before.len() - usize::from(this)].to_vec();
                    found.push((target.last().cloned().unwrap_or_default(), target));
                }
                i += 1;
            }
            Token::Sign('*') => {
                found.push(("*".into(), before.clone()));
                i += 1;
            }
            Token::Sign('{') => {
                let end = behind(code, i);
                tree(&code[i + 1..end - 1], before, found);
                i = end;
            }
            Token::Sign(',') => {
                before.truncate(depth);
                i += 1;
            }
            _ => i += 1,
        }
    }
    before.truncate(depth);
}
