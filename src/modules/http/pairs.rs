//! Lua tables of names and values: queries, forms, route parameters. `http.parse_urlencoded`.

use crate::codec::decoded_pairs::{InlinePairs, PairList, Pairs};
use crate::codec::uri;
use crate::lua::{Call, Decoded, Decoder, Either, Event, Fault, Function, Nil, Table};

/// Decodes pairs as a table that maps names to values. Several values with the same name become a list.
#[derive(Clone, Copy)]
pub(super) struct Named<T> {
    pairs: T,
    /// The index of the next pair.
    index: usize,
    position: Position,
}

#[derive(Clone, Copy)]
enum Position {
    Begin,
    Name,
    Value,
    /// In a list with this number of values left.
    List(usize),
    End,
}

/// Returns the table of these pairs.
pub(super) fn named<T: PairList>(pairs: T) -> Decoded<Named<T>> {
    Decoded(Named { pairs, index: 0, position: Position::Begin })
}

/// The parameters of a route.
pub(super) type Parameters = Either<Decoded<Named<InlinePairs>>, Decoded<Named<Pairs>>>;

/// Returns the parameters of a path without parameters.
pub(super) fn no_parameters() -> Parameters {
    Either::Other(named(Pairs::default()))
}

impl<T: PairList> Named<T> {
    #[inline]
    fn value(&mut self) -> Event<'_> {
        self.index += 1;
        Event::String(self.pairs.value(self.index - 1))
    }
}

impl<T: PairList> Decoder for Named<T> {
    const CALL: &'static str = "http.parse_urlencoded";
    #[inline]
    fn next(&mut self, _: u32) -> Event<'_> {
        match self.position {
            Position::Begin => {
                self.position = Position::Name;
                let room = (0, self.pairs.len().try_into().unwrap_or(0));
                Event::Table(Table { pairs: true, room, ..Table::default() })
            }
            Position::Name if self.index == self.pairs.len() => {
                self.position = Position::End;
                Event::Nil
            }
            Position::Name => {
                self.position = Position::Value;
                Event::String(self.pairs.name(self.index))
            }
            Position::Value => match self.pairs.values(self.index) {
                1 => {
                    self.position = Position::Name;
                    self.value()
                }
                values => {
                    self.position = Position::List(values);
                    Event::Table(Table { items: values as u64, ..Table::default() })
                }
            },
            Position::List(left) => {
                self.position = if left == 1 { Position::Name } else { Position::List(left - 1) };
                self.value()
            }
            Position::End => Event::End,
        }
    }
}

/// `http.parse_urlencoded(text [, most])`: returns a urlencoded form as a table like `req.query`; nil if the form has
/// more than `most` pairs.
pub(crate) const PARSE_URLENCODED: Function = Function::new(|call: &mut Call<'_>| {
    let text = call.bytes(1)?;
    if !call.is_none(2) {
        let most = call.integer_in(2, 0..=i64::MAX, "number of pairs")? as usize;
        if uri::query_pairs(text).nth(most).is_some() {
            return Ok::<_, Fault>(Either::Other(Nil));
        }
    }
    Ok(Either::One(named(Pairs::of_query(text))))
});
