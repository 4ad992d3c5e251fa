//! The opening handshake of a client (RFC 6455 section 4.1): the fields of its request, and the check of the response.

use super::handshake::{self, KEY_BYTES, VERSION};
use super::negotiation::{self, Deflate};
use crate::codec::http1::fields::is_token;

/// The wishes of a client.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    key: String,
    protocols: Vec<String>,
    deflate: Option<Deflate>,
}

/// The terms to which the server has agreed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Agreement {
    /// The subprotocol, one of the offered names.
    pub(crate) protocol: Option<String>,
    /// The parameters of permessage-deflate.
    pub(crate) deflate: Option<Deflate>,
}

impl Request {
    /// `random`: 16 random bytes, new for each request. `protocols`: the names of the subprotocols that the client
    /// supports, the best first. `deflate`: the most that the client wants to use of permessage-deflate; `None` offers
    /// no compression.
    ///
    /// # Errors
    /// A subprotocol is not a token, or is there twice: the name of that subprotocol.
    pub(crate) fn new(
        random: &[u8; KEY_BYTES], protocols: Vec<String>, deflate: Option<Deflate>,
    ) -> Result<Request, String> {
        let is_wrong =
            |(index, name): &(usize, &String)| !is_token(name.as_bytes()) || protocols[..*index].contains(name);
        if let Some((_, wrong)) = protocols.iter().enumerate().find(is_wrong) {
            return Err(wrong.clone());
        }
        Ok(Request { key: handshake::key(random), protocols, deflate })
    }

    /// Returns the names and values of the fields of the request, besides `Host`.
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![
            ("Connection", "Upgrade".to_owned()),
            ("Upgrade", "websocket".to_owned()),
            ("Sec-WebSocket-Version", VERSION.to_owned()),
            ("Sec-WebSocket-Key", self.key.clone()),
        ];
        if !self.protocols.is_empty() {
            fields.push(("Sec-WebSocket-Protocol", self.protocols.join(", ")));
        }
        if let Some(deflate) = &self.deflate {
            fields.push(("Sec-WebSocket-Extensions", negotiation::offer(deflate)));
        }
        fields
    }

    /// Checks the server's response. `fields`: the names and values of its fields.
    ///
    /// # Errors
    /// The response does not accept this request: a text that says what is wrong.
    pub(crate) fn check<'f>(
        &self, status: u16, fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) -> Result<Agreement, String> {
        let values = |name: &'static str| {
            let named = move |field: &(&[u8], &[u8])| field.0.eq_ignore_ascii_case(name.as_bytes());
            fields.clone().filter(named).map(|(_, value)| value)
        };
        if status != 101 {
            return Err(format!("the server has answered with status {status} instead of 101"));
        }
        if !values("Upgrade").any(|value| value.eq_ignore_ascii_case(b"websocket")) {
            return Err("the server's Upgrade field is not 'websocket'".into());
        }
        if !values("Connection").any(|value| handshake::has_token(value, "upgrade")) {
            return Err("the server's Connection field does not contain 'Upgrade'".into());
        }
        let accept = handshake::accept(self.key.as_bytes());
        let mut accepts = values("Sec-WebSocket-Accept");
        match (accepts.next(), accepts.next()) {
            (Some(value), None) if value == accept.as_bytes() => (),
            (None, _) => return Err("the server's Sec-WebSocket-Accept is missing".into()),
            (Some(_), Some(_)) => return Err("the server has sent Sec-WebSocket-Accept twice".into()),
            _ => return Err("the server's Sec-WebSocket-Accept does not belong to the client's key".into()),
        }
        let protocol = self.protocol(values("Sec-WebSocket-Protocol"))?;
        let deflate = negotiation::confirm(values("Sec-WebSocket-Extensions"), self.deflate.as_ref())?;
        Ok(Agreement { protocol, deflate })
    }

    fn protocol<'f>(&self, mut values: impl Iterator<Item = &'f [u8]>) -> Result<Option<String>, String> {
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err("the server has sent Sec-WebSocket-Protocol twice".into());
        }
        match self.protocols.iter().find(|name| name.as_bytes() == value) {
            Some(name) => Ok(Some(name.clone())),
            None => {
                let value = String::from_utf8_lossy(value);
                Err(format!("the server has chosen the subprotocol '{value}', which was not offered"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPGRADE: (&str, &str) = ("upgrade", "WebSocket");
    const CONNECTION: (&str, &str) = ("connection", "keep-alive, upgrade");
    const ACCEPT: (&str, &str) = ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    const EXTENSION: &str = "sec-websocket-extensions";

    fn request(deflate: Option<Deflate>) -> Request {
        Request::new(b"the sample nonce", vec!["v2".into(), "v1".into()], deflate).unwrap()
    }

    fn checked(request: &Request, status: u16, fields: &[(&str, &str)]) -> Result<Agreement, String> {
        request.check(status, fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
    }

    /// Returns why a response with these fields, besides the usual ones, is refused.
    fn refused(request: &Request, more: &[(&str, &str)]) -> String {
        checked(request, 101, &[&[UPGRADE, CONNECTION, ACCEPT], more].concat()).expect_err("an error")
    }

    #[test]
    fn the_fields_of_a_request() {
        let fields = request(Some(Deflate::default())).fields();
        assert_eq!(
            fields.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>(),
            [
                ("Connection", "Upgrade"),
                ("Upgrade", "websocket"),
                ("Sec-WebSocket-Version", "13"),
                ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
                ("Sec-WebSocket-Protocol", "v2, v1"),
                (
                    "Sec-WebSocket-Extensions",
                    "permessage-deflate; server_no_context_takeover; client_no_context_takeover; client_max_window_bits"
                ),
            ]
        );
        let bare = Request::new(&[0; 16], Vec::new(), None).unwrap();
        assert_eq!(bare.fields().len(), 4);
    }

    #[test]
    fn subprotocols_are_tokens_and_unique() {
        for (names, wrong) in [(["a", "b c"], "b c"), (["", "b"], ""), (["a", "a"], "a")] {
            let names = names.map(String::from).to_vec();
            assert_eq!(Request::new(&[0; 16], names, None).expect_err("an error"), wrong);
        }
    }

    #[test]
    fn a_response_that_accepts_the_request() {
        let request = request(Some(Deflate::default()));
        let usual = [UPGRADE, CONNECTION, ACCEPT];
        assert_eq!(checked(&request, 101, &usual), Ok(Agreement { protocol: None, deflate: None }));
        let more = [
            ("Sec-WebSocket-Protocol", "v1"),
            (EXTENSION, "permessage-deflate; server_no_context_takeover; client_no_context_takeover"),
        ];
        let agreement = checked(&request, 101, &[&usual[..], &more].concat()).unwrap();
        assert_eq!(agreement, Agreement { protocol: Some("v1".into()), deflate: Some(Deflate::default()) });
    }

    #[test]
    fn responses_that_do_not_accept_the_request() {
        let request = request(None);
        let check = |status, fields: &[(&str, &str)]| checked(&request, status, fields).expect_err("an error");
        let usual = [UPGRADE, CONNECTION, ACCEPT];
        assert_eq!(check(200, &usual), "the server has answered with status 200 instead of 101");
        assert_eq!(check(101, &[CONNECTION, ACCEPT]), "the server's Upgrade field is not 'websocket'");
        let missing = "the server's Connection field does not contain 'Upgrade'";
        assert_eq!(check(101, &[UPGRADE, ("connection", "close"), ACCEPT]), missing);
        assert_eq!(check(101, &[UPGRADE, CONNECTION]), "the server's Sec-WebSocket-Accept is missing");
        let wrong = ("sec-websocket-accept", "s3pplmbitxaq9kygzzhzrbk+xoo=");
        let text = "the server's Sec-WebSocket-Accept does not belong to the client's key";
        assert_eq!(check(101, &[UPGRADE, CONNECTION, wrong]), text);
        assert_eq!(refused(&request, &[ACCEPT]), "the server has sent Sec-WebSocket-Accept twice");
    }

    #[test]
    fn only_what_was_offered_may_be_chosen() {
        let bare = request(None);
        let text = "the server has chosen the subprotocol 'V1', which was not offered";
        assert_eq!(refused(&bare, &[("Sec-WebSocket-Protocol", "V1")]), text);
        let twice = [("Sec-WebSocket-Protocol", "v1"), ("Sec-WebSocket-Protocol", "v1")];
        assert_eq!(refused(&bare, &twice), "the server has sent Sec-WebSocket-Protocol twice");
        let text = "the server has accepted an extension that was not offered";
        assert_eq!(refused(&bare, &[(EXTENSION, "permessage-deflate")]), text);
        assert_eq!(refused(&request(Some(Deflate::default())), &[(EXTENSION, "x-webkit-deflate-frame")]), text);
    }
}
