"""Pages, and the API."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST
from rest_framework.response import Response
from rest_framework.views import APIView

from monitor import transports
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
    channel.error = transports.send_test(channel)
    channel.save()
    if channel.error:
        messages.warning(request, f"Could not send: {channel.error}")
    else:
        messages.success(request, "Test notification sent!")
    return redirect("channels")


class SendTest(APIView):
    """The same for programs."""

    def post(self, request, pk):
        channel = get_object_or_404(Channel, pk=pk, owner=request.user)
        channel.error = transports.send_test(channel)
        channel.save()
        status = 502 if channel.error else 200
        return Response({"channel": channel.name, "error": channel.error}, status=status)
