//! Tests of `distlock-fence` against real databases.
