//! The messages in the sources: string literals that become errors.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The literals with which the arguments of `calls` begin, as in `Err("…")`, `Err(format!("…"))` or `format!("…")`.
/// What `{}` stands for is `…`. Modules and functions of tests are left out.
pub(crate) fn messages(source: &str, calls: &[&str]) -> Vec<String> {
    let tokens = source.parse().expect("the source is Rust");
    let mut found = Vec::new();
    collect(tokens, calls, &mut found);
    found
}

fn collect(tokens: TokenStream, calls: &[&str], found: &mut Vec<String>) {
    // What stands in front of the next group: `LockError::options`, `format!`.
    let mut callee = String::new();
    let mut in_tests = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let is_test = callee == "#" && group.to_string().replace(' ', "") == "[cfg(test)]";
                if group.delimiter() == Delimiter::Brace && in_tests {
                    in_tests = false;
                } else {
                    if calls.contains(&callee.as_str()) {
                        found.extend(first_literal(group.stream()));
                    }
                    collect(group.stream(), calls, found);
                }
                in_tests |= is_test;
                callee.clear();
            }
            TokenTree::Ident(name) => {
                if !callee.ends_with("::") {
                    callee.clear();
                }
                callee.push_str(&name.to_string());
            }
            TokenTree::Punct(mark) if ":!#".contains(mark.as_char()) => callee.push(mark.as_char()),
            TokenTree::Punct(mark) => {
                // `#[cfg(test)] mod tests;`: the file is one of tests.
                in_tests &= mark.as_char() != ';';
                callee.clear();
            }
            TokenTree::Literal(_) => callee.clear(),
        }
    }
}

/// The literal with which `arguments` begin, by itself or in a `format!`.
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
    let inside = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::new();
    let mut chars = inside.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next()? {
                // The line goes on behind the white space.
                '\n' => chars = chars.as_str().trim_start().chars(),
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
