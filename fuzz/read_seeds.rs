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
