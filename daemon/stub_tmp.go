package daemon

import (
	"errors"
	"net/http"
)

func (d *Daemon) answerLog([]byte) ([]byte, error) { return nil, errors.New("stub") }
func (d *Daemon) postExport(w http.ResponseWriter, q *http.Request) {
	reply(w, nil, errors.New("stub"))
}
func (d *Daemon) getLedger(w http.ResponseWriter, q *http.Request) {}

type LedgerTotal struct {
	Entries      uint64 `json:"entries"`
	Verified     bool   `json:"verified"`
	Certificates uint64 `json:"certificates"`
	Evidence     uint64 `json:"evidence"`
}
type VerifyResult struct {
	Version   string
	Accuracy  *float64
	Loss      float64
	StartLoss float64
	Ledger    LedgerTotal
}
