package wire

import "bytes"

// MaxChainItem bounds a record with what proves it.
const MaxChainItem = 2*MaxRecord + MaxMessage

// ChainItem is a decided record with what proves it: a certificate, or for
// record 0 the creator's envelope.
type ChainItem struct {
	_      struct{} `cbor:",toarray"`
	Record []byte
	Cert   []byte // of a GPBFT instance; none for record 0
	Start  []byte // the sealed proposal of record 0; else none
}

// OpenCert decodes the certificate, of which nothing is checked yet. It is nil if
// there is none.
func (it *ChainItem) OpenCert() (*Cert, error) {
	if len(it.Cert) == 0 {
		return nil, nil
	}
	c := new(Cert)
	if err := Unmarshal(it.Cert, c, MaxMessage); err != nil {
		return nil, err
	}
	return c, nil
}

// OpenedItem is a ChainItem with its record decoded.
type OpenedItem struct {
	ChainItem
	Rec *Record
	// Lean says that the encoding has nothing besides record and certificate, and is
	// their one encoding: it may be kept and passed on as it is.
	Lean bool
}

// OpenChainItem decodes an item as peers exchange it; its frame may be encoded in
// other ways than the canonical one. Neither b, which the result keeps and
// remembers, nor the result may be changed. Nothing of the proof is checked yet.
func OpenChainItem(b []byte) (*OpenedItem, error) {
	return Once(b, func(b []byte) (*OpenedItem, error) {
		it := new(OpenedItem)
		if err := UnmarshalAny(b, &it.ChainItem, MaxChainItem); err != nil {
			return nil, err
		}
		it.Lean = len(it.Start) == 0 && bytes.Equal(b, Marshal(it.ChainItem))
		var err error
		it.Rec, err = OpenRecord(it.Record)
		return it, err
	})
}

// AttestList is the content of an attest file of an export: envelopes by sender,
// of at most MaxBlock bytes.
type AttestList struct {
	_         struct{} `cbor:",toarray"`
	Envelopes [][]byte
}

// OpenAttestList decodes the content of an attest file and opens its envelopes.
func OpenAttestList(b []byte) ([]Envelope, error) {
	var l AttestList
	if err := Unmarshal(b, &l, MaxBlock); err != nil {
		return nil, err
	}
	var out []Envelope
	for _, raw := range l.Envelopes {
		e, err := Open(raw)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}
