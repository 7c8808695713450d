//! The part of Markdown that the checks need.

/// A code block, without its fences.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CodeBlock {
    pub(crate) language: String,
    /// Lines without comments and without trailing blanks.
    pub(crate) lines: Vec<String>,
}

/// A table: the cells of each row.
pub(crate) type Table = Vec<Vec<String>>;

/// The parts of a document.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Levels and texts of the headings.
    pub(crate) headings: Vec<(usize, String)>,
    pub(crate) blocks: Vec<CodeBlock>,
    pub(crate) tables: Vec<Table>,
    /// The lines outside code blocks.
    pub(crate) prose: Vec<String>,
}

impl Document {
    pub(crate) fn parse(text: &str) -> Self {
        let mut document = Document::default();
        let mut lines = text.lines();
        let mut in_table = false;
        while let Some(line) = lines.next() {
            if let Some(language) = line.strip_prefix("```") {
                let inside = lines.by_ref().take_while(|line| !line.starts_with("```"));
                let lines = inside.map(|line| without_comment(line, language)).collect();
                document.blocks.push(CodeBlock { language: language.to_owned(), lines });
                in_table = false;
                continue;
            }
            document.prose.push(line.to_owned());
            if let Some(rest) = line.strip_prefix('#') {
                let level = 1 + rest.chars().take_while(|char| *char == '#').count();
                document.headings.push((level, rest.trim_start_matches('#').trim().to_owned()));
            }
            if line.starts_with('|') {
                if !in_table {
                    document.tables.push(Table::new());
                }
                document.tables.last_mut().expect("just pushed").push(cells(line));
            }
            in_table = line.starts_with('|');
        }
        document
    }
}

fn without_comment(line: &str, language: &str) -> String {
    let mark = match language {
        "sh" => "    #",
        "sql" => "    --",
        _ => "//",
    };
    let code = match line.find(mark) {
        // `redis://` is not a comment.
        Some(at) if !line[..at].ends_with(':') => &line[..at],
        _ => line,
    };
    code.trim_end().to_owned()
}

fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|').trim_end_matches('|');
    row.split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// The pieces of `text` that are set as code.
pub(crate) fn code_spans(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The targets of the links and pictures of a line.
pub(crate) fn link_targets(line: &str) -> Vec<String> {
    let without_code: String = line.split('`').step_by(2).collect();
    let targets = without_code.split("](").skip(1);
    targets.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// The anchor of a heading.
pub(crate) fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_left_out_and_urls_are_not() {
        assert_eq!(without_comment("f(\"redis://host/\"); ", "rust"), "f(\"redis://host/\");");
        assert_eq!(without_comment("let a = 1; // one", "rust"), "let a = 1;");
        assert_eq!(without_comment("run it    # a comment", "sh"), "run it");
        assert_eq!(without_comment("COMMIT;    -- a comment", "sql"), "COMMIT;");
    }

    #[test]
    fn anchors_are_those_of_the_usual_renderers() {
        assert_eq!(
            anchor("The lock and the write in one transaction"),
            "the-lock-and-the-write-in-one-transaction"
        );
        assert_eq!(anchor("`ttl`, `renew`"), "ttl-renew");
    }

    #[test]
    fn links_inside_code_are_none() {
        assert_eq!(link_targets("see [a](b.md) and `[c](d)`, ![p](e.svg)"), ["b.md", "e.svg"]);
    }
}
