//! The examples of README and of the page of commands are run as they stand.

#[test]
fn the_examples_of_the_pages_hold() {
    trycmd::TestCases::new().case("README.md").case("docs/commands.md");
}
