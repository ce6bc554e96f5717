package wire

import "fmt"

// Put writes one file of an export. Names use forward slashes.
type Put func(name string, b []byte) error

// WriteFile is Put itself, for those who write into a directory.
func (p Put) WriteFile(name string, b []byte) error { return p(name, b) }

// In returns a Put whose names get a prefix.
func (p Put) In(prefix string) Put {
	return func(name string, b []byte) error { return p(prefix+name, b) }
}

// RecordFile is the name of record r in an export: a ChainItem.
func RecordFile(r uint64) string { return fmt.Sprintf("records/%08d", r) }

// AttestFile is the name of the attestations of version r: an AttestList.
func AttestFile(r uint64) string { return fmt.Sprintf("attest/%08d", r) }

// BlockFile is the name of a block. Manifests are blocks too.
func BlockFile(id CID) string { return "blocks/" + RawDigestCID(id.Digest()).String() }

// CosignedFile is the name of a head of owner's log that a witness cosigned.
func CosignedFile(owner, witness PeerID) string {
	return "cosigned/" + owner.String() + "/" + witness.String()
}

// EvidenceFile is the name of evidence with a digest.
func EvidenceFile(d Digest) string { return "evidence/" + d.String() }

// Proven is a decided record with what proves it, as an export holds it.
type Proven struct {
	Record *Record
	Raw    []byte
	Cert   *Cert     // nil for record 0
	Start  *Envelope // the creator's, of record 0; else nil
}

// OpenProven decodes a record file. Nothing of the proof is checked yet.
func OpenProven(b []byte) (*Proven, error) {
	var it ChainItem
	if err := Unmarshal(b, &it, MaxChainItem); err != nil {
		return nil, err
	}
	p := &Proven{Raw: it.Record}
	var err error
	if p.Record, err = OpenRecord(it.Record); err != nil {
		return nil, err
	}
	if p.Cert, err = it.OpenCert(); err != nil {
		return nil, err
	}
	if len(it.Start) > 0 {
		e, err := OpenBlock(it.Start)
		if err != nil {
			return nil, err
		}
		p.Start = &e
	}
	return p, nil
}
