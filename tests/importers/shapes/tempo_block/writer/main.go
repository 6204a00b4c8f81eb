// Writes one Tempo block (vParquet, of Tempo 1.5.0) from an OTLP file: `vp TRACE.otlp.pb FOLDER`.
package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/grafana/tempo/pkg/model"
	"github.com/grafana/tempo/pkg/tempopb"
	"github.com/grafana/tempo/tempodb/backend"
	"github.com/grafana/tempo/tempodb/backend/local"
	"github.com/grafana/tempo/tempodb/encoding/common"
	"github.com/grafana/tempo/tempodb/encoding/vparquet"
)

type one struct{ id, object []byte }

func (o *one) Next(context.Context) (common.ID, []byte, error) {
	if o.object == nil {
		return nil, nil, io.EOF
	}
	object := o.object
	o.object = nil
	return o.id, object, nil
}
func (o *one) Close() {}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	data, err := os.ReadFile(os.Args[1])
	must(err)
	trace := &tempopb.Trace{}
	must(trace.Unmarshal(data))
	id := trace.Batches[0].InstrumentationLibrarySpans[0].Spans[0].TraceId
	segment := model.MustNewSegmentDecoder(model.CurrentEncoding)
	part, err := segment.PrepareForWrite(trace, 1, 2)
	must(err)
	object, err := segment.ToObject([][]byte{part})
	must(err)
	rawR, rawW, _, err := local.New(&local.Config{Path: os.Args[2]})
	must(err)
	meta := backend.NewBlockMeta("single-tenant", uuid.MustParse("00000000-0000-4000-8000-000000000001"), vparquet.VersionString, backend.EncNone, "")
	meta.TotalObjects = 1
	meta.StartTime, meta.EndTime = time.Unix(1, 0), time.Unix(2, 0)
	_, err = vparquet.CreateBlock(context.Background(), &common.BlockConfig{BloomFP: 0.01, BloomShardSizeBytes: 100 * 1024}, meta,
		&one{id, object}, model.MustNewObjectDecoder(model.CurrentEncoding), backend.NewReader(rawR), backend.NewWriter(rawW))
	must(err)
}
