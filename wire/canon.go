package wire

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// Limits that hold for every decoded noun.
const (
	// MaxMessage bounds an envelope that travels on a topic.
	MaxMessage = 64 << 10
	// MaxSaid bounds an envelope that goes to some peers directly.
	MaxSaid = 2 * MaxMessage
	// MaxBlock bounds a block: bytes named by their CID.
	MaxBlock = 1 << 20
	// MaxRecord bounds a record: that of the most members.
	MaxRecord = 4 << 20
	// maxElements bounds one CBOR array or byte count prefix in any noun.
	maxElements = 1 << 16
	maxNesting  = 16
)

// ErrNotCanonical is returned when bytes decode but are not the one encoding of
// what they say.
var ErrNotCanonical = errors.New("encoding is not canonical")

var (
	encMode = must(encOptions().EncMode())
	decMode = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		MaxArrayElements:  maxElements,
		MaxMapPairs:       1 << 10,
		MaxNestedLevels:   maxNesting,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8RejectInvalid,
	}.DecMode())
)

func encOptions() cbor.EncOptions {
	o := cbor.CoreDetEncOptions()
	o.NilContainers = cbor.NilContainerAsEmpty // one encoding of "none"
	return o
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Marshal returns the canonical encoding of v. It panics if v is not one of
// this package's nouns or a plain value: that is a programming error.
func Marshal(v any) []byte {
	b, err := encMode.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("wire: encode %T: %v", v, err))
	}
	return b
}

// UnmarshalAny is Unmarshal for what nobody signs, names or keeps: the frame in
// which peers exchange nouns may be encoded in other ways too.
func UnmarshalAny(b []byte, v any, max int) error {
	if len(b) > max {
		return fmt.Errorf("decode %T: %d bytes, limit %d", v, len(b), max)
	}
	if err := decMode.Unmarshal(b, v); err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	return nil
}

// Unmarshal decodes b into the noun that v points to. It refuses more than max
// bytes, trailing bytes and every encoding but the canonical one.
func Unmarshal(b []byte, v any, max int) error {
	if err := UnmarshalAny(b, v, max); err != nil {
		return err
	}
	if c, ok := v.(interface{ check() error }); ok {
		if err := c.check(); err != nil {
			return fmt.Errorf("decode %T: %w", v, err)
		}
	}
	again, err := encMode.Marshal(v)
	if err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	if !bytes.Equal(again, b) {
		return fmt.Errorf("decode %T: %w", v, ErrNotCanonical)
	}
	return nil
}
