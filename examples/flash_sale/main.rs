//! A flash sale: more orders than there are goods, at several instances of a shop at the same moment.
//!
//! ```text
//! cargo run --release --example flash_sale                              embedded, nothing to install
//! cargo run --release --example flash_sale -- --url redis://127.0.0.1/  through Redis
//! ```
//!
//! The function to copy is `Shop::buy`.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use clap::Parser;
use distlock::{LockError, LockManager, distributed_lock};
use distlock_examples::{AnyError, Comparison, Side, Store, count, instances, run, table};
use tokio::task::JoinSet;

/// A flash sale: more orders than there are goods, at several instances of a shop at the same moment
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    store: Store,
    /// Orders for each product
    #[arg(long, default_value = "50", value_parser = count())]
    orders: usize,
    /// Pieces of each product
    #[arg(long, default_value = "10", value_parser = count())]
    stock: usize,
}

const PRODUCTS: [&str; 3] = ["kettle", "lamp", "radio"];
const INSTANCES: usize = 4;

#[derive(Debug, thiserror::Error)]
enum BuyError {
    #[error("sold out")]
    SoldOut,
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// One instance of the shop.
#[derive(Debug, Clone)]
struct Shop {
    locks: LockManager,
    warehouse: Warehouse,
}

impl Shop {
    /// Sells one piece: one order per product at a time, in all instances together. Other products do not wait.
    #[distributed_lock(key = "stock:<product>", ttl = "10s", manager = self.locks)]
    async fn buy(&self, product: &str) -> Result<(), BuyError> {
        self.buy_unguarded(product).await
    }

    /// The same without the lock: all customers who ask before the first one has paid see the same piece as available.
    async fn buy_unguarded(&self, product: &str) -> Result<(), BuyError> {
        if self.warehouse.left(product) < 1 {
            return Err(BuyError::SoldOut);
        }
        ask_the_payment_provider().await;
        self.warehouse.take_one(product);
        Ok(())
    }
}

async fn ask_the_payment_provider() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Stands for a table in a database, with `UPDATE stock SET left = left - 1`: no update is lost, and none is refused.
#[derive(Debug, Clone, Default)]
struct Warehouse(Arc<Mutex<BTreeMap<String, i64>>>);

impl Warehouse {
    fn stocked_with(pieces: i64) -> Self {
        Self(Arc::new(Mutex::new(PRODUCTS.map(|product| (product.to_owned(), pieces)).into())))
    }

    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<String, i64>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn left(&self, product: &str) -> i64 {
        self.with(|stock| stock.get(product).copied().unwrap_or(0))
    }

    fn take_one(&self, product: &str) {
        self.with(|stock| *stock.entry(product.to_owned()).or_default() -= 1);
    }

    fn least(&self) -> i64 {
        self.with(|stock| stock.values().min().copied().unwrap_or(0))
    }
}

#[derive(Debug, Default)]
struct Sale {
    sold: usize,
    sold_out: usize,
    errors: usize,
    least: i64,
}

#[tokio::main]
async fn main() -> ExitCode {
    run(compare).await
}

async fn compare(options: Options) -> Result<Comparison, AnyError> {
    let Options { store, orders, stock } = options;
    let managers = instances(&store.url, INSTANCES).await?;
    let mut table = table(["", "orders", "in stock", "sold", "sold out", "errors", "lowest stock"]);
    let mut sale = Sale::default();
    for side in Side::BOTH {
        sale = sell(&managers, orders, i64::try_from(stock)?, side).await;
        table.add_row([
            side.name().to_owned(),
            (orders * PRODUCTS.len()).to_string(),
            (stock * PRODUCTS.len()).to_string(),
            sale.sold.to_string(),
            sale.sold_out.to_string(),
            sale.errors.to_string(),
            sale.least.to_string(),
        ]);
    }
    Ok(Comparison {
        title: format!("{orders} orders for each of {} products at {INSTANCES} shops", PRODUCTS.len()),
        table,
        verdict: format!("With the lock the lowest stock is {}; it must not be negative.", sale.least),
        kept: sale.least >= 0 && sale.sold <= stock * PRODUCTS.len(),
    })
}

async fn sell(managers: &[LockManager], orders: usize, pieces: i64, side: Side) -> Sale {
    let warehouse = Warehouse::stocked_with(pieces);
    let mut flying = JoinSet::new();
    for (number, locks) in (0..orders).zip(managers.iter().cycle()) {
        for product in PRODUCTS {
            let shop = Shop { locks: locks.clone(), warehouse: warehouse.clone() };
            flying.spawn(async move {
                // Not all customers are equally quick.
                tokio::time::sleep(Duration::from_micros(number as u64 * 10)).await;
                match side {
                    Side::Guarded => shop.buy(product).await,
                    Side::Unguarded => shop.buy_unguarded(product).await,
                }
            });
        }
    }
    let mut sale = Sale::default();
    while let Some(answer) = flying.join_next().await {
        match answer {
            Ok(Ok(())) => sale.sold += 1,
            Ok(Err(BuyError::SoldOut)) => sale.sold_out += 1,
            _ => sale.errors += 1,
        }
    }
    Sale { least: warehouse.least(), ..sale }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_guarded_sale_sells_what_is_there() {
        let managers = instances("memory:", INSTANCES).await.unwrap();
        let sale = sell(&managers, 20, 5, Side::Guarded).await;
        assert_eq!((sale.sold, sale.sold_out, sale.least), (15, 45, 0));
        assert!(
            sell(&managers, 20, 5, Side::Unguarded).await.least < 0,
            "without the lock nothing protects it"
        );
    }
}
