//! The README's examples are run as they stand.

#[test]
fn the_examples_of_the_readme_hold() {
    trycmd::TestCases::new().case("README.md");
}
