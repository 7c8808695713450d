//! The texts in the sources: string literals, and the literals that become errors.

use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::documents::{read, sources};

/// The texts of a source, with `…` instead of `{}`. Modules and functions of tests are left out, and so are
/// documentation comments.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// All string literals.
    pub(crate) literals: Vec<String>,
    /// The literals at the beginning of arguments, as in `Err("…")`, `Err(format!("…"))` or `format!("…")`, each after
    /// the name of the called function.
    arguments: Vec<(String, String)>,
    /// The modules that only tests have, in separate files.
    test_modules: Vec<String>,
}

impl Texts {
    fn of(source: &str) -> Self {
        let mut texts = Texts::default();
        texts.collect(source.parse().expect("the source is Rust"));
        texts
    }

    fn collect(&mut self, tokens: TokenStream) {
        // The path before the next group: `LockError::options`, `format!`.
        let mut callee = String::new();
        let mut in_tests = false;
        // The name after `mod`.
        let mut module = None;
        for token in tokens {
            match token {
                TokenTree::Group(group) => {
                    let attribute = if callee.starts_with('#') { group.to_string() } else { String::new() };
                    if group.delimiter() == Delimiter::Brace && in_tests {
                        in_tests = false;
                    } else if !attribute.starts_with("[doc") {
                        self.arguments
                            .extend(first_literal(group.stream()).map(|text| (callee.clone(), text)));
                        self.collect(group.stream());
                    }
                    in_tests |= is_for_tests(&attribute);
                    callee.clear();
                }
                TokenTree::Ident(name) => {
                    module = (callee == "mod").then(|| name.to_string());
                    if !callee.ends_with("::") {
                        callee.clear();
                    }
                    callee.push_str(&name.to_string());
                }
                TokenTree::Punct(mark) if ":!#".contains(mark.as_char()) => callee.push(mark.as_char()),
                TokenTree::Punct(mark) => {
                    // `#[cfg(test)] mod tests;`: the file contains tests.
                    if mark.as_char() == ';' && in_tests {
                        in_tests = false;
                        self.test_modules.extend(module.take());
                    }
                    callee.clear();
                }
                TokenTree::Literal(literal) => {
                    self.literals.extend(text(&literal.to_string()));
                    callee.clear();
                }
            }
        }
    }
}

/// Whether the item below this attribute is compiled only for tests.
fn is_for_tests(attribute: &str) -> bool {
    let mut words = attribute.split(|char: char| !char.is_alphanumeric());
    attribute.replace(' ', "").starts_with("[cfg(")
        && words.any(|word| word == "test")
        && !attribute.contains("not")
}

/// The literals at the beginning of the arguments of `calls`.
pub(crate) fn messages(source: &str, calls: &[&str]) -> Vec<String> {
    let arguments = Texts::of(source).arguments.into_iter();
    arguments.filter(|(callee, _)| calls.contains(&callee.as_str())).map(|(_, text)| text).collect()
}

/// The texts of the sources below `folder`, each with its path, without the files of tests.
pub(crate) fn texts_of_programs(folder: &Path) -> Vec<(PathBuf, Texts)> {
    let mut all: Vec<(PathBuf, Texts)> = Vec::new();
    for path in sources(folder) {
        let texts = Texts::of(&read(&path));
        all.push((path, texts));
    }
    let modules = all.iter().flat_map(|(path, texts)| {
        let folder = folder_of_modules(path);
        texts.test_modules.iter().map(move |name| folder.join(name))
    });
    let tests: Vec<PathBuf> = modules.collect();
    // A module with a `#[path]` is in a file `…_tests.rs`.
    let is_of_tests = |path: PathBuf| {
        path.to_string_lossy().ends_with("_tests") || tests.iter().any(|test| path.starts_with(test))
    };
    all.retain(|(path, _)| !is_of_tests(path.with_extension("")));
    all
}

/// The folder with the files of the modules that the file declares.
fn folder_of_modules(path: &Path) -> PathBuf {
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib" | "main") => path.with_file_name(""),
        _ => path.with_extension(""),
    }
}

/// The literal at the beginning of `arguments`, alone or in a `format!`.
fn first_literal(arguments: TokenStream) -> Option<String> {
    let mut tokens = arguments.into_iter();
    match tokens.next()? {
        TokenTree::Literal(first) => text(&first.to_string()),
        TokenTree::Ident(name) if name == "format" => match tokens.nth(1)? {
            TokenTree::Group(group) => first_literal(group.stream()),
            _ => None,
        },
        _ => None,
    }
}

/// The text of a string literal, as it is written in the source.
fn text(literal: &str) -> Option<String> {
    if let Some(raw) = literal.strip_prefix('r') {
        return raw.trim_matches('#').strip_prefix('"')?.strip_suffix('"').map(str::to_owned);
    }
    let inside = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::new();
    let mut chars = inside.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next()? {
                // The line continues after the white space.
                '\n' => chars = chars.as_str().trim_start().chars(),
                'n' => text.push('\n'),
                escaped => text.push(escaped),
            },
            '{' if chars.as_str().starts_with('{') => text.push(chars.next()?),
            '{' => {
                chars.by_ref().take_while(|char| *char != '}').for_each(drop);
                text.push('…');
            }
            '}' if chars.as_str().starts_with('}') => text.push(chars.next()?),
            other => text.push(other),
        }
    }
    Some(text)
}

#[test]
fn literals_are_read_as_rust_reads_them() {
    let source = "
        fn f() -> Result<(), String> {
            // Err(\"a comment\")
            let brace = '{';
            g(\"no error\").ok_or(\"nothing\")?;
            Err(format!(\"a {brace:?} c\\\n      d {{e}}\", 1)).map_err(|_| LockError::key(\"bad\"))
        }
        #[cfg(test)]
        mod tests { fn t() { Err(\"of a test\") } }
        #[cfg(test)]
        mod more_tests;
        fn last() { Err(\"the last\") }";
    assert_eq!(messages(source, &["Err", "ok_or"]), ["nothing", "a … cd {e}", "the last"]);
    assert_eq!(messages(source, &["LockError::key"]), ["bad"]);
}

#[test]
fn every_literal_of_a_program_is_read_and_none_of_its_tests() {
    let source = "
        //! \"A page.\"
        /// \"An item.\"
        #[must_use = \"an attribute\"]
        fn f() {
            call(1, x, \"the third argument\");
            const LIST: &[&str] = &[\"an item\\nof a list\", r#\"a \"raw\" one\"#];
            #[cfg(test)]
            record.begin();
            write!(f, b\"bytes\", \"a {} c\", 'd');
        }
        #[cfg(all(test, feature = \"x\"))]
        mod tests { fn t() { f(\"of a test\") } }
        #[cfg(test)]
        mod more_tests;
        #[cfg(not(test))]
        mod no_tests;
        #[cfg(feature = \"testing\")]
        mod kit;";
    let texts = Texts::of(source);
    let read = ["an attribute", "the third argument", "an item\nof a list", "a \"raw\" one", "a … c"];
    assert_eq!(texts.literals, [&read[..], &["x", "testing"]].concat());
    assert_eq!(texts.test_modules, ["more_tests"]);
}

#[test]
fn files_of_test_modules_are_left_out() {
    assert_eq!(folder_of_modules(Path::new("src/lib.rs")).join("tests"), Path::new("src/tests"));
    assert_eq!(folder_of_modules(Path::new("src/a/mod.rs")).join("sim"), Path::new("src/a/sim"));
    assert_eq!(folder_of_modules(Path::new("src/a.rs")).join("tests"), Path::new("src/a/tests"));
    let texts = texts_of_programs(&crate::documents::root().join("distlock/src"));
    let has = |name: &str| texts.iter().any(|(path, _)| path.ends_with(name));
    assert!(has("error.rs") && has("engine/step/wait.rs"));
    assert!(!has("engine/sim/world.rs") && !has("backend/redis/url_tests.rs"));
}
