//! For the tests of the crates that the fuzz targets feed: inputs from which a target starts pass, and those that have
//! found a bug. Each crate includes this file by its path.

use std::path::Path;

/// The inputs of a target.
pub(crate) fn seeds(target: &str) -> Vec<Vec<u8>> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let directory = above.map(|at| at.join("fuzz/seeds").join(target)).find(|at| at.is_dir()).unwrap();
    let files = directory.read_dir().unwrap().map(|file| file.unwrap().path());
    files.map(|path| std::fs::read(path).unwrap()).collect()
}

/// Each input of the target `stores` that begins with this letter passes. There is at least one.
pub(crate) fn all_pass(letter: &[u8], target: fn(&[u8])) {
    let seeds = seeds("stores");
    let of_it: Vec<&[u8]> = seeds.iter().filter_map(|seed| seed.strip_prefix(letter)).collect();
    assert!(!of_it.is_empty(), "there is no seed for {}", letter.escape_ascii());
    of_it.into_iter().for_each(target);
}
