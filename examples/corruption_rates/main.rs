//! Whether silent corruption is found, and whether the rate that a run says it could have seen is
//! right: flips bits in products on a device, and prints docs/appendix/corruption-rates.md.
//!
//!     cargo run --example corruption_rates > docs/appendix/corruption-rates.md
//!     cargo run --example corruption_rates -- DEVICE SEEDS EACH PRODUCTS RUNS
//!
//! A release build plants nothing. tests/library/corruption.rs runs the same trials with few seeds;
//! scripts/check_corruption.sh runs them on the host and on a stub driver.

mod trial;

use anyhow::Context as _;
use fizeau_bench::sdc::planted::Site;
use fizeau_device::BACKENDS;
use fizeau_domain::stats::rate_seen;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "host".into());
    let mut number = |or: u64| arguments.next().map_or(Ok(or), |text| text.parse());
    let (seeds, each, products, runs) =
        (number(1_000)?, number(1_000)?, number(1_000_000)?, number(2_000)?);
    let (backend, ordinal) = name.split_once(':').unwrap_or((&name, "0"));
    let backend = BACKENDS.iter().find(|one| one.name() == backend);
    let device = backend.context("no such device")?.open(ordinal.parse()?)?;
    let device = device.as_ref();
    let is_stub = device.properties().is_stub();
    let mark = if is_stub { " (stub)" } else { "" };
    println!("## {name}{mark}\n");
    // A stub's kernels keep their sums in variables of the compiled text.
    let sites: &[Site] = match name == "host" {
        true => &Site::ALL,
        false => &[Site::Operand, Site::Output, Site::Payload],
    };
    println!("One bit in one of {each} products, by site; {seeds} seeds in all.\n");
    println!(
        "| bit of | kernels | seeds | caught | place told | drawn anew, since rounding swallowed \
              it | false alarms | products |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let (mut changed, mut caught) = (0, 0);
    for (at, &site) in sites.iter().enumerate() {
        let its = (0..seeds).filter(|seed| *seed % sites.len() as u64 == at as u64);
        // Numbers of their own: kernels follow from them too.
        let its = its.map(|seed| seed / sites.len() as u64);
        let found = trial::flips(device, site, its, u32::try_from(each)?)?;
        println!(
            "| {}{mark} | {} | {} | {} | {} | {} | {} | {} |",
            site.name(),
            found.kernels.len(),
            found.changed,
            found.caught,
            found.placed,
            found.masked,
            found.false_alarms,
            found.products,
        );
        changed += found.changed;
        caught += found.caught;
        anyhow::ensure!(found.false_alarms == 0, "{} false alarms", found.false_alarms);
    }
    println!("\n**{caught} of {changed} caught.**{mark}\n");
    anyhow::ensure!(caught == changed && changed == seeds, "{caught} of {changed}, {seeds} seeds");
    let count = u32::try_from(products)?;
    let [clean, spoilt] = trial::many(device, count)?;
    println!("One run of {count} products of 16 x 16 x 16: {}.{mark}\n", clean.words());
    println!("The same with one flipped bit among them: {}.{mark}\n", spoilt.words());
    anyhow::ensure!(clean.mismatches == 0 && spoilt.mismatches == 1, "{clean:?} {spoilt:?}");
    println!("Runs in which each product is spoilt with the rate that is stated for as many:\n");
    println!("| products | stated rate | runs | saw it | expected |");
    println!("| ---: | ---: | ---: | ---: | ---: |");
    for products in [10, 100, 1_000] {
        // As many products in all for each.
        let runs = (runs * 10 / products).max(200);
        let share = trial::stated_rate(device, u32::try_from(products)?, runs)?;
        let rate = rate_seen(products);
        let percent = 100.0 * share;
        println!("| {products}{mark} | {rate:.2e} | {runs} | {percent:.1} % | 95.0 % |");
        let error = (0.95 * 0.05 / runs as f64).sqrt();
        anyhow::ensure!((share - 0.95).abs() < 3.5 * error, "{products}: {share}");
    }
    println!();
    Ok(())
}
