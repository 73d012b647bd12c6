"""Pages, and the API."""

import offload
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST
from rest_framework.views import APIView

from monitor import tasks
from monitor.forms import ChannelForm
from monitor.models import Channel


@login_required
def channels(request):
    """List the user's channels, and add one."""
    form = ChannelForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        form.instance.owner = request.user
        form.save()
        messages.success(request, "Channel added.")
        return redirect("channels")
    own = Channel.objects.filter(owner=request.user)
    return render(request, "channels.html", {"channels": own, "form": form})


@login_required
@require_POST
def send_test(request, pk):
    """Send a test notification, and say on the next page how it went."""
    channel = get_object_or_404(Channel, pk=pk, owner=request.user)
    return offload.run(tasks.send_test, channel, late=redirect("channels"))


class SendTest(APIView):
    """The same for programs."""

    def post(self, request, pk):
        channel = get_object_or_404(Channel, pk=pk, owner=request.user)
        return offload.run(tasks.send_test, channel, request=request)
