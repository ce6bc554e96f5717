package data

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Spec says where data lie and how they become samples.
type Spec struct {
	Format string `toml:"format" comment:"mnist, text, jsonl, sources, images, wav, csv, series or tensors"`
	Path   string `toml:"path" comment:"file or folder"`
	Ext    string `toml:"ext" comment:"ending of the files that count; empty: all, or what the format knows"`
	SplitSpec

	Context   int     `toml:"context" comment:"text: tokens of a window; default 128"`
	Tokenizer string  `toml:"tokenizer" comment:"text: tokenizer.json of a byte-level BPE; empty: bytes"`
	Field     string  `toml:"field" comment:"jsonl: the field that holds the text, default text; tensors: the inputs, default x"`
	Tail      float64 `toml:"tail" comment:"text: the last share of each file is the valid split, to compare with published results; else files are held out by hash"`

	Labels       string `toml:"labels" comment:"images, wav: CSV file with a row a file; empty: the first folder of a path is its class"`
	File         string `toml:"file" comment:"column of labels with the file's name; default file"`
	Label        string `toml:"label" comment:"column with the class, default label; tensors: the tensor of classes, default y"`
	Group        string `toml:"group" comment:"column whose equal values stay on one side of a split"`
	GroupFrom    string `toml:"group_from" comment:"csv: column of labels that holds the group of a row, whose group column names a row of labels by its file"`
	LabelPattern string `toml:"label_pattern" comment:"regular expression with one group: the class in a file's name"`
	GroupPattern string `toml:"group_pattern" comment:"the same for the group"`

	Height int    `toml:"height" comment:"images are resized to height and width; default 64"`
	Width  int    `toml:"width"`
	Grey   bool   `toml:"grey" comment:"images: one channel instead of three"`
	Crop   int    `toml:"crop" comment:"images, digits: training samples move by up to so many pixels"`
	Flip   string `toml:"flip" comment:"images: h, v or hv: training samples are mirrored by chance"`
	Jitter int    `toml:"jitter" comment:"images: brightness and contrast of training samples vary by so many percent"`

	Columns []string `toml:"columns" comment:"csv, series: inputs; empty: every other column that holds numbers"`
	Drop    []string `toml:"drop" comment:"csv: columns that are no inputs"`
	Noise   float64  `toml:"noise" comment:"csv: deviation of normal noise on scaled training inputs"`

	Rate    int     `toml:"rate" comment:"wav: samples a second after resampling; default 8000"`
	Seconds float64 `toml:"seconds" comment:"wav: length that clips are cut or filled to; default 1"`
	Mels    int     `toml:"mels" comment:"wav: bands; default 40"`
	Hop     float64 `toml:"hop" comment:"wav: seconds between frames; default 0.016"`
	Mask    int     `toml:"mask" comment:"wav: up to so many bands and frames of training samples are blanked"`

	Time     string   `toml:"time" comment:"series: column of the time stamps"`
	Series   string   `toml:"series" comment:"series: column that names the series of a row; empty: one"`
	Targets  []string `toml:"targets" comment:"series: columns that are forecast"`
	Step     string   `toml:"step" comment:"series: length of a step, as 1h; default 1h"`
	History  int      `toml:"history" comment:"series: steps that are seen; default 72"`
	Horizons []int    `toml:"horizons" comment:"series: steps ahead that are forecast; default 1"`
	Low      float64  `toml:"low" comment:"series: smaller values are faults"`
	High     float64  `toml:"high" comment:"series: larger values are faults; 0: no bound"`
	Until    string   `toml:"until" comment:"series: training ends before this time"`
	TestEnd  string   `toml:"test_until" comment:"series: the test split is from until to before this time"`
	// WeatherShift makes the weather's clock UTC.
	WeatherShift string `toml:"weather_shift" comment:"series: added to the times of the weather, as 5h for a clock five hours behind UTC; a wrong one lets the future in"`
	// Calibration is read, and written beside the model.
	Calibration string `toml:"calibration" comment:"series: file with what earlier forecasts were worth, as a run leaves it beside its model"`
	Weather     string `toml:"weather" comment:"series: CSV file of further inputs, the same for all series"`
}

// openers make data sets by format.
var openers = map[string]func(Spec) (Set, error){
	"mnist": openDigits,
	"text":  openTokens, "jsonl": openTokens, "images": openImages,
	"wav":     openSounds,
	"csv":     openTable,
	"series":  openSeries,
	"tensors": openTensorShards,
	"sources": func(d Spec) (Set, error) {
		c := defaultText()
		c.Context, c.Ext, c.Seed = max(d.Context, c.Context), d.Ext, d.Seed
		return openText(d.Path, c)
	},
}

// Formats returns the names of all formats.
func Formats() []string { return slices.Sorted(maps.Keys(openers)) }

// Validate checks what can be checked without opening anything.
func (d Spec) Validate() error {
	if openers[d.Format] == nil {
		return fmt.Errorf("data format %q, want %s", d.Format, strings.Join(Formats(), ", "))
	}
	if d.Path == "" && d.Format != "mnist" && d.Format != "sources" {
		return fmt.Errorf("data format %s needs a path", d.Format)
	}
	return d.SplitSpec.Validate()
}

// Open opens the data set that d describes. It wraps weights.ErrFile where files are
// at fault.
func Open(d Spec) (Set, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return openers[d.Format](d)
}

// Rebase makes relative paths start at base.
func (d *Spec) Rebase(base string) {
	for _, p := range []*string{&d.Path, &d.Tokenizer, &d.Labels, &d.Weather, &d.Calibration} {
		*p = Rebased(base, *p)
	}
}

// Rebased returns path as seen from base, where it is relative.
func Rebased(base, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}
