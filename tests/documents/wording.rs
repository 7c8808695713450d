//! Habits of the authors that readers stumble over, and words that readers of the translations search for.

use std::fs;
use std::path::PathBuf;

use crate::documents::markdown::Document;
use crate::documents::messages::texts_of_programs;
use crate::documents::translations::pages;
use crate::documents::{read, root};

/// Phrases to avoid, each with a better one. CONTRIBUTING.md shows whole sentences.
const HABITS: &[(&str, &str)] = &[
    ("under way", "running, in progress"),
    ("go on", "continue, resume"),
    ("goes on", "continues, resumes"),
    ("going on", "running"),
    ("went on", "continued, resumed"),
    ("is told", "notices; learns from (what?)"),
    ("are told", "notice; learn from (what?)"),
    ("was told", "noticed"),
    ("be told", "notice"),
    ("given back", "released"),
    ("gives back", "releases"),
    ("give back", "release"),
    ("out of reach", "unreachable"),
    ("stands still", "is paused"),
    ("stand still", "are paused"),
    ("stood still", "was paused"),
    ("to be had", "available"),
    ("can be had", "is available"),
    ("beside", "next to, compared with, together with"),
    ("somebody", "another process, the holder"),
    ("everybody", "all callers, all processes"),
    ("ends by itself", "expires"),
    ("one's own", "your own"),
    ("stands in the queue", "waits in the queue"),
    ("has come in", "has acquired the lock"),
    ("belongs into", "belongs in"),
    ("so many", "this many; the number of"),
    ("for so long", "for this long"),
    ("nobody", "no process, no caller"),
    ("anybody", "any process, any client"),
    ("whoever", "the caller that, any process that"),
    ("those who", "holders, waiters, users that"),
    ("all the same", "nevertheless"),
    ("anew", "again"),
    ("also not", "even ... not"),
    ("carried out", "executed"),
    ("carries out", "executes"),
    ("carry out", "execute"),
    ("of no use", "useless"),
    ("let in", "granted the lock; accepted"),
    ("lets in", "grants the lock to; accepts"),
    ("in place of", "instead of"),
    ("what is left", "the rest"),
    ("any more", "no longer"),
    ("can be reached", "is reachable"),
    ("cannot be reached", "is unreachable"),
    ("does not tell", "does not report"),
    ("has stopped to", "has stopped ...ing"),
    ("this is no", "this is not a"),
    ("is spoken to", "is connected to"),
    ("in the clear", "without TLS"),
    ("who asked", "the caller"),
    ("this very", "this"),
    ("stands for the office", "is a candidate"),
];

/// Words that no text of a program has, because its reader does not know who speaks.
const SPEAKERS: &[(&str, &str)] = &[
    ("we", "distlock, this process"),
    ("our", "of distlock, of this process"),
    ("ours", "held by this process"),
];

/// Pages without these habits, and folders whose documentation comments have none. Add a page after it was rewritten.
const CLEAN: &[&str] = &[
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "benches/attribute_cost",
    "benches/charts",
    "benches/family",
    "benches/fenced",
    "benches/foundation",
    "benches/nested",
    "benches/observers",
    "benches/stores/src",
    "benches/support",
    "benches/topologies",
    "benches/waiting",
    "distlock-cli/src",
    "distlock-cli/tests",
    "distlock-macros/src",
    "distlock-store/src",
    "distlock/src/attribute.md",
    "distlock/src/axum",
    "distlock/src/backend/adapter",
    "distlock/src/backend/memory",
    "distlock/src/backend/mod.rs",
    "distlock/src/backend/quorum",
    "distlock/src/backend/redis/cluster",
    "distlock/src/backend/redis/cluster_tests",
    "distlock/src/backend/redis/connection",
    "distlock/src/backend/redis/model_tests",
    "distlock/src/backend/redis/recording",
    "distlock/src/backend/redis/standalone",
    "distlock/src/backend/redis/tests",
    "distlock/src/blocking",
    "distlock/src/contained.rs",
    "distlock/src/deadlock",
    "distlock/src/driver",
    "distlock/src/engine",
    "distlock/src/error.rs",
    "distlock/src/guard",
    "distlock/src/held.rs",
    "distlock/src/key_macro.md",
    "distlock/src/leader",
    "distlock/src/lease_cell.rs",
    "distlock/src/lib.rs",
    "distlock/src/manager",
    "distlock/src/metrics.md",
    "distlock/src/observe",
    "distlock/src/private",
    "distlock/src/protocol",
    "distlock/src/release.rs",
    "distlock/src/request",
    "distlock/src/scope.rs",
    "distlock/src/section.rs",
    "distlock/src/simulation",
    "distlock/src/store.rs",
    "distlock/src/testing",
    "distlock/src/ticket.rs",
    "distlock/tests",
    "docs/architecture.md",
    "docs/book/src/alternatives.md",
    "docs/book/src/coming-from-more.md",
    "docs/book/src/coming-from.md",
    "docs/book/src/compile-errors.md",
    "docs/book/src/do-i-need-a-lock.md",
    "docs/book/src/errors.md",
    "docs/book/src/faq.md",
    "docs/book/src/from-handler-to-commit.md",
    "docs/book/src/introduction.md",
    "docs/book/src/jobs-and-leaders.md",
    "docs/book/src/kinds.md",
    "docs/book/src/kubernetes.md",
    "docs/book/src/migrations.md",
    "docs/book/src/observing.md",
    "docs/book/src/opentelemetry.md",
    "docs/book/src/other-languages.md",
    "docs/book/src/platforms.md",
    "docs/book/src/quick-start.md",
    "docs/book/src/recipes.md",
    "docs/book/src/symptoms.md",
    "docs/book/src/testing.md",
    "docs/book/src/web-services.md",
    "docs/book/src/with-a-database.md",
    "docs/book/src/with-diesel.md",
    "docs/book/src/with-http.md",
    "docs/book/src/with-mysql-async.md",
    "docs/book/src/with-objects.md",
    "docs/book/src/with-redis-values.md",
    "docs/book/src/with-rusqlite.md",
    "docs/book/src/with-sea-orm.md",
    "docs/book/src/with-tokio-postgres.md",
    "docs/book/src/write-a-store.md",
    "docs/command.md",
    "docs/etcd.md",
    "docs/faults.md",
    "docs/memcached.md",
    "docs/mysql.md",
    "docs/operating.md",
    "docs/postgres.md",
    "docs/protocol.md",
    "docs/redis.md",
    "docs/scale.md",
    "docs/speed.md",
    "docs/sqlite.md",
    "docs/stores.md",
    "docs/zookeeper.md",
    "examples",
    "fence/src",
    "fuzz/fuzz_targets",
    "referee/src",
    "spec/README.md",
    "stores/etcd/src",
    "stores/memcached/src",
    "stores/sqlite/src",
    "stores/zookeeper/src",
    "tests/attribute",
    "tests/axum",
    "tests/conformance",
    "tests/contract",
    "tests/documents",
    "tests/each_store",
    "tests/etcd",
    "tests/faults",
    "tests/fence",
    "tests/fixtures",
    "tests/kit",
    "tests/listing",
    "tests/memcached",
    "tests/model",
    "tests/mysql",
    "tests/panics",
    "tests/processes",
    "tests/soak",
    "tests/sqlite",
    "tests/support",
    "tests/topologies",
    "tests/toy_store/src",
    "tests/tracing",
    "tests/zookeeper",
];

/// The sources whose string literals have none of these habits: errors, logs, help, and the attribute's messages.
const PROGRAMS: [&str; 6] =
    ["distlock/src", "distlock-cli/src", "distlock-macros/src", "distlock-store/src", "fence/src", "stores"];

/// The texts of `CLEAN`, each with its path. The text of a source is its documentation comments.
fn clean_texts() -> Vec<(String, String)> {
    let mut found: Vec<PathBuf> = CLEAN.iter().map(|page| root().join(page)).collect();
    let mut texts = Vec::new();
    while let Some(path) = found.pop() {
        if path.is_dir() {
            found.extend(fs::read_dir(&path).expect("readable").map(|entry| entry.expect("readable").path()));
            continue;
        }
        let text = read(&path);
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        let text = if is_source { documentation(&text) } else { text };
        texts.push((path.strip_prefix(root()).unwrap_or(&path).display().to_string(), text));
    }
    texts
}

/// The documentation comments of a source. All other lines are empty.
fn documentation(source: &str) -> String {
    let comment = |line: &str| {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).unwrap_or_default();
        text.strip_prefix(' ').unwrap_or(text).to_owned() + "\n"
    };
    source.lines().map(comment).collect()
}

/// A line without its code spans and the targets of its links.
fn own_words(line: &str) -> String {
    let text: String = line.split('`').step_by(2).collect();
    let mut words = String::new();
    for (place, piece) in text.split("](").enumerate() {
        let piece = if place == 0 { piece } else { piece.split_once(')').map_or("", |(_, rest)| rest) };
        words += piece;
        words.push(' ');
    }
    words.to_lowercase()
}

/// The lines of `prose` without the left column of a table of examples, which shows what not to write.
fn without_bad_examples(prose: Vec<String>) -> Vec<String> {
    let mut in_examples = false;
    let kept = prose.into_iter().map(|line| {
        in_examples = line == "| before | after |" || (in_examples && line.starts_with('|'));
        let right = || line.rsplit('|').nth(1).unwrap_or_default().to_owned();
        if in_examples { right() } else { line }
    });
    kept.collect()
}

/// Those of `habits` that occur in a line.
fn habits_in<'a>(line: &str, habits: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let words = own_words(line);
    habits.iter().copied().filter(|(habit, _)| says(&words, habit)).collect()
}

/// Whether `text` contains `phrase` as whole words.
fn says(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[test]
fn clean_pages_stay_without_our_habits() {
    let mut found = Vec::new();
    for (page, text) in clean_texts() {
        for line in without_bad_examples(Document::parse(&text).prose) {
            for (habit, instead) in habits_in(&line, HABITS) {
                found.push(format!("{page}: \"{habit}\" (write: {instead}) in: {line}"));
            }
        }
    }
    assert!(found.is_empty(), "the style is in CONTRIBUTING.md:\n{}", found.join("\n"));
}

/// Every text that a program shows to users of the library, of the command and of the attribute.
#[test]
fn texts_of_programs_have_none_of_our_habits() {
    let habits = [HABITS, SPEAKERS].concat();
    let (mut read, mut found) = (0, Vec::new());
    for (path, texts) in PROGRAMS.iter().flat_map(|folder| texts_of_programs(&root().join(folder))) {
        for literal in &texts.literals {
            read += 1;
            for (habit, instead) in habits_in(literal, &habits) {
                found.push(format!("{}: \"{habit}\" (write: {instead}) in: {literal}", path.display()));
            }
        }
    }
    assert!(read > 3000, "{read} literals: the search finds too little");
    assert!(found.is_empty(), "the style is in CONTRIBUTING.md:\n{}", found.join("\n"));
}

/// For each language: words that its readers search for, and words that are wrong or that no native speaker writes.
#[test]
fn translations_have_the_words_that_their_readers_know() {
    let chinese = [
        "注解",
        "分布式锁",
        "续期",
        "看门狗",
        "可重入",
        "读写锁",
        "锁误删",
        "超发",
        "秒杀",
        "积分兑换",
        "红锁",
        "主从切换",
        "单点故障",
        "幂等",
        "轮询",
        "Redisson",
        "lock4j",
        "ShedLock",
    ];
    let japanese = [
        "アノテーション",
        "分散ロック",
        "排他制御",
        "リエントラント",
        "二重実行",
        "フェンシングトークン",
        "単一障害点",
        "フェイルオーバー",
        "ウォッチドッグ",
        "冪等",
        "スロットリング",
        "Spring",
        "Redisson",
        "lock4j",
        "ShedLock",
    ];
    let wrong_chinese = ["您", "轮训", "打开 feature", "向前跳", "注释", "密钥"];
    let wrong_japanese = ["あなた", "ことができます", "ございます", "注釈", "鍵", "構成の選び方"];
    for (language, known, wrong) in
        [("zh", &chinese[..], &wrong_chinese[..]), ("ja", &japanese[..], &wrong_japanese[..])]
    {
        let readme = format!("README.{language}.md");
        let text = read(&root().join(&readme));
        let missing: Vec<_> = known.iter().filter(|word| !text.contains(**word)).collect();
        assert!(missing.is_empty(), "{readme} lacks {missing:?}");
        let of_book = pages(language).into_iter().map(|name| format!("docs/book/src/{language}/{name}"));
        for page in of_book.chain([readme]) {
            let text = read(&root().join(&page));
            let found: Vec<_> = wrong.iter().filter(|word| text.contains(**word)).collect();
            assert!(found.is_empty(), "{page} has {found:?}");
            let plain: Vec<_> =
                Document::parse(&text).prose.into_iter().filter(|line| !shows_bold(line)).collect();
            assert!(plain.is_empty(), "{page} has asterisks that are shown as they are: {plain:?}");
        }
    }
}

/// Whether every `**…**` is shown in bold. A mark between punctuation inside and a letter outside does not count as
/// one.
fn shows_bold(line: &str) -> bool {
    let pieces: Vec<&str> = line.split("**").collect();
    let meets = |outside: Option<char>, inside: Option<char>| {
        inside.is_some_and(char::is_alphanumeric) || !outside.is_some_and(char::is_alphanumeric)
    };
    let between = |pair: (usize, &[&str])| {
        let (left, right) = (pair.1[0].chars().next_back(), pair.1[1].chars().next());
        if pair.0.is_multiple_of(2) { meets(left, right) } else { meets(right, left) }
    };
    pieces.windows(2).enumerate().all(between)
}

#[test]
fn bold_words_are_told_from_asterisks() {
    assert!(shows_bold("一**二**三、**四**。**`five`**："));
    assert!(!shows_bold("**`five`**は"));
    assert!(!shows_bold("**一。**二"));
    assert!(!shows_bold("一**（二）**"));
}

#[test]
fn habits_are_found_in_words_of_our_own_only() {
    assert!(says(&own_words("The body goes on."), "goes on"));
    assert!(!says(&own_words("`goes on` and [a page](goes on.md)"), "goes on"));
    assert!(says(&own_words("a [body that goes on](page.md) here"), "goes on"));
    assert!(!says("the besides", "beside"));
    assert_eq!(habits_in("Nobody holds `somebody`.", HABITS), [("nobody", "no process, no caller")]);
}

#[test]
fn documentation_comments_are_read_without_the_code() {
    let source = "//! A page.\n\nfn go_on() {} // goes on\n    /// A line.\n    ///\n    /// ```\n";
    assert_eq!(documentation(source), "A page.\n\n\nA line.\n\n```\n");
}

#[test]
fn only_the_left_column_of_examples_is_left_out() {
    let page = "| before | after |\n|---|---|\n| it goes on | it goes on, too |\n\n| goes on | a cell |";
    let lines = without_bad_examples(page.lines().map(str::to_owned).collect());
    assert_eq!(lines, [" after ", "---", " it goes on, too ", "", "| goes on | a cell |"]);
}
