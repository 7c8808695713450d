//! With all its rules, the protocol keeps every promise in every state of every world.

use distlock_model::{
    explore::explore,
    worlds::{self, Size},
};

macro_rules! worlds {
    ($($world:ident),* $(,)?) => {
        $(
            #[test]
            fn $world() {
                let outcome = explore(&worlds::$world(Size::Small));
                assert_eq!(outcome.counterexample, None);
                assert!(outcome.somebody_held, "nothing happened in it");
            }
        )*

        #[test]
        fn every_world_is_here() {
            let names: Vec<&str> = worlds::ALL.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, vec![$(stringify!($world)),*]);
        }
    };
}

worlds![
    delays,
    pushes,
    broken_links,
    broken_links_without_kill,
    cancels,
    extensions,
    chains,
    kept,
    gaps,
    progress,
    dead_waiters,
];
