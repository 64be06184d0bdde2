//! Documents to text: terminal, Markdown, HTML, CSV, JSON.
