//! The server's own tokenizer, by which prompts get an exact number of tokens.

use super::http::{Client, Connections};
use fizeau_projection::load::target::Endpoint;
use serde_json::{Value, json};

/// Whose `/tokenize` it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// vLLM's: model and prompt, or messages; it answers with a count.
    Vllm,
    /// llama.cpp's: content; it answers with tokens. A template is put on by `/apply-template`.
    LlamaCpp,
}

/// A server's tokenizer.
#[derive(Debug)]
pub struct Tokenizer<'c> {
    client: &'c Client,
    connections: &'c Connections,
    model: &'c str,
    /// Whose it is.
    pub dialect: Dialect,
}

impl<'c> Tokenizer<'c> {
    /// The server's, where it has one of a kind that is known.
    pub fn find(
        client: &'c Client,
        connections: &'c Connections,
        model: &'c str,
    ) -> Option<Tokenizer<'c>> {
        let both = [Dialect::Vllm, Dialect::LlamaCpp];
        let tokenizer = |dialect| Tokenizer { client, connections, model, dialect };
        both.into_iter().map(tokenizer).find(|one| one.count("time year").is_ok_and(|n| n > 0))
    }

    /// The tokens of a prompt as a request has it: with the marks and the template that the server
    /// adds.
    ///
    /// # Errors
    /// In words: what the server answers.
    pub fn count(&self, prompt: &str) -> Result<u32, String> {
        let messages = json!([{"role": "user", "content": prompt}]);
        let is_chat = self.client.target.endpoint == Endpoint::Chat;
        match self.dialect {
            Dialect::Vllm => {
                let body = match is_chat {
                    true => json!({"model": self.model, "messages": messages}),
                    false => json!({"model": self.model, "prompt": prompt}),
                };
                let answer = self.ask("/tokenize", &body)?;
                let count = answer["count"].as_u64().and_then(|count| u32::try_from(count).ok());
                count.ok_or_else(|| "/tokenize: there is no count in the answer".into())
            }
            Dialect::LlamaCpp => {
                let templated = match is_chat {
                    true => Some(self.ask("/apply-template", &json!({"messages": messages}))?),
                    false => None,
                };
                let text = match &templated {
                    Some(answer) => answer["prompt"]
                        .as_str()
                        .ok_or("/apply-template: there is no prompt in the answer")?,
                    None => prompt,
                };
                let body = json!({"content": text, "add_special": true, "parse_special": is_chat});
                let answer = self.ask("/tokenize", &body)?;
                let tokens = answer["tokens"].as_array();
                let tokens = tokens.ok_or("/tokenize: there are no tokens in the answer")?;
                Ok(u32::try_from(tokens.len()).unwrap_or(u32::MAX))
            }
        }
    }

    fn ask(&self, path: &str, body: &Value) -> Result<Value, String> {
        match self.client.ask(self.connections, path, Some(body))? {
            (200, value) => Ok(value),
            (status, _) => Err(format!("{path}: status {status}")),
        }
    }
}
